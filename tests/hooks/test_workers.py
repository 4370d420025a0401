"""Loader workers: output and exit as without hooks, and their fetches in files of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from hooked import both, run

from accelprof.hooks import wire

JOB = """
    import sys, torch
    from torch.utils.data import DataLoader, Dataset

    class Squares(Dataset):
        transform = torch.nn.Linear(2, 2)  # a transform that is a module is no root

        def __len__(self):
            return 8
        def __getitem__(self, n):
            with torch.no_grad():
                self.transform(torch.ones(2))
            return torch.tensor([n * n])

    if __name__ == "__main__":
        context, persistent = sys.argv[1], sys.argv[2] == "1"
        loader = DataLoader(Squares(), batch_size=2, num_workers=2, persistent_workers=persistent,
                            multiprocessing_context=context)
        for _ in range(2):
            print([b.flatten().tolist() for b in loader])
"""


@pytest.mark.parametrize(("context", "persistent"), [("fork", 0), ("spawn", 1), ("forkserver", 0)])
def test_workers(tmp_path: Path, context: str, persistent: int) -> None:
    _, ours = both(JOB, tmp_path, context, str(persistent))
    processes = ours.processes()
    main, workers = processes[0], [p for p in processes if p.is_worker]
    assert len(workers) == (2 if persistent else 4)
    assert {p.fact("worker")[0]["parent"] for p in workers} == (
        {main.fact("process")[0]["pid"]} if context != "forkserver" else
        {p.fact("worker")[0]["parent"] for p in workers}
    )  # fmt: skip
    assert {p.fact("worker")[0]["worker"] for p in workers} == {0, 1}
    for process in workers:
        number = process.fact("worker")[0]["worker"]
        assert len(process.of("FETCH")) == (4 if persistent else 2)
        assert {s.ident for s in process.of("FETCH", "COLLATE")} == {number + 1}
        assert not process.of("FORWARD", "DATA_WAIT")
    waits = main.of("DATA_WAIT")
    assert [s.flags for s in waits] == [1, 0, 0, 0, 0, 2] * 2
    assert not main.of("FETCH", "FORWARD")
    (loader,) = main.fact("loader")
    assert (loader["num_workers"], loader["context"]) == (2, context)
    assert loader["persistent"] is bool(persistent) and loader["prefetch"] == 2


def test_a_worker_that_fails(tmp_path: Path) -> None:
    script = """
        import torch
        from torch.utils.data import DataLoader

        class Bad:
            def __len__(self):
                return 4
            def __getitem__(self, n):
                raise KeyError(n)

        for workers in (0, 1):
            try:
                next(iter(DataLoader(Bad(), num_workers=workers)))
            except KeyError as error:
                import traceback
                text = traceback.format_exc()
                print("_accelprof" in text or "/hooks/frameworks" in text, text)
    """
    _, ours = both(script, tmp_path)
    assert "True" not in ours.out
    assert [s.flags & 0x40 for s in ours.main().of("DATA_WAIT")] == [0, 0x40, 0, 0x40]


def test_stateful_loader_with_copies_of_its_own(tmp_path: Path) -> None:
    """As torchdata has it: own `__init__` and `__iter__`, an iterator that calls super()."""
    package = tmp_path / "site" / "torchdata" / "stateful_dataloader"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").write_text("from .stateful_dataloader import StatefulDataLoader\n")
    (package / "stateful_dataloader.py").write_text(
        "from torch.utils.data.dataloader import DataLoader, _SingleProcessDataLoaderIter\n"
        "class _Iter(_SingleProcessDataLoaderIter):\n"
        "    def __next__(self):\n"
        "        return super().__next__()\n"
        "class StatefulDataLoader(DataLoader):\n"
        "    def __init__(self, data):\n"
        "        self.__dict__.update(DataLoader(data, batch_size=2).__dict__)\n"
        "    def __iter__(self):\n"
        "        return _Iter(self)\n"
    )
    script = """
        import torch
        from torchdata.stateful_dataloader import StatefulDataLoader
        print(len(list(StatefulDataLoader(torch.ones(6, 1)))))
    """
    ours = run(script, tmp_path, PYTHONPATH=str(tmp_path / "site"))
    main = ours.main()
    assert [s.flags for s in main.of("DATA_WAIT")] == [1, 0, 0, 0, 2]
    assert main.fact("loader")[0]["where"].endswith("job.py:4")


def test_forks_while_a_thread_writes(tmp_path: Path) -> None:
    script = """
        import os, threading
        import accelprof
        stop, written = threading.Event(), []

        def write():
            while not stop.wait(0.0005):
                with accelprof.phase("thread"):
                    written.append(1)

        accelprof.step()
        thread = threading.Thread(target=write)
        thread.start()
        for n in range(500):
            pid = os.fork()
            if pid == 0:
                if n % 125 == 0:
                    accelprof.samples(n)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        stop.set()
        thread.join()
        print(len(written))
    """
    ours = run(script, tmp_path)
    processes = ours.processes()
    assert len(processes) == 5  # the parent, and each child that had something to tell
    assert [[s.value for s in p.of("SAMPLES")] for p in processes[1:]] == [[0], [125], [250], [375]]
    assert not any(p.of("PHASE") for p in processes[1:])
    phases = processes[0].of("PHASE")
    assert len(phases) == len({span.start for span in phases}) == int(ours.out) > 100


def test_batches_in_process_are_looked_at_for_a_part_of_the_time(tmp_path: Path) -> None:
    """A collate belongs to its fetch: they are recorded or left out together."""
    script = """
        import time, torch
        from torch.utils.data import DataLoader, Dataset

        class Slow(Dataset):
            def __len__(self):
                return 5
            def __getitem__(self, index):
                time.sleep(0.002)
                return torch.ones(2)

        for batch in DataLoader(Slow()):
            pass
        for batch in DataLoader(torch.ones(600, 2)):
            pass
    """
    main = run(script, tmp_path).main()
    assert len(main.of("FETCH")) == len(main.of("COLLATE"))
    slow = [s for s in main.of("FETCH") if s.end - s.start > 1_500_000]
    quick = [s for s in main.of("FETCH") if s not in slow]
    # Of 600 the first 32, then one in 50 ms: more of them only where the machine hardly runs us
    assert len(slow) >= 5 and len(slow) + len(quick) >= 5 + 32
    measured = [s for s in main.of("DATA_WAIT") if not s.flags & wire.F_NO_CPU]
    looks = len(main.of("FETCH"))
    ends = 4  # two makings of an iterator; a look may fall on the wait that ends an epoch
    assert looks <= len(measured) <= looks + ends
    span = main.of("DATA_WAIT")[-1].end - main.of("DATA_WAIT")[0].start
    assert looks <= 2 * 32 + 2 + span // 50_000_000
