"""What the job's own code does that the report has something to say of."""

from __future__ import annotations

from pathlib import Path

from hooked import both

JOB = """
    import io, sys, torch
    from tqdm import tqdm

    class Probe:
        def __call__(self, frame, event, arg): return None

    model = torch.nn.DataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    bar = tqdm(total=12, mininterval=0, file=io.StringIO())
    sys.settrace(Probe())
    for step in range(12):
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()
        torch.cuda.empty_cache()
        bar.update(1)
    sys.settrace(None)
    class Moved(torch.utils.data.Dataset):
        def __len__(self): return 2
        def __getitem__(self, at): return torch.ones(2).to("meta")
    print(len(list(torch.utils.data.DataLoader(Moved(), collate_fn=list))))
    print(torch.cuda.is_initialized(), torch.cuda.empty_cache.__name__)
"""


def test_what_is_told_of_them(tmp_path: Path) -> None:
    _, ours = both(JOB, tmp_path, ACCELPROF_CAPTURE="5")
    main = ours.main()
    assert [f["calls"] for f in main.fact("emptied")] == [1, 10]
    assert {f["where"] for f in main.fact("emptied")} == {f"{tmp_path}/job.py:15"}
    assert [f["name"] for f in main.fact("parallel")] == ["DataParallel"]
    assert [f["by"] for f in main.fact("traced")] == [["__main__"]]
    assert [f["where"] for f in main.fact("copy_in_data")] == [f"{tmp_path}/job.py:20"]
    assert len(main.of("LOGGING")) >= 12  # each time that the bar was drawn
    assert not main.fact("hook_off")
