"""How records reach the ring: kept for a moment, written together, short calls as one."""

from __future__ import annotations

from pathlib import Path

from hooked import run

from accelprof.hooks import wire

CELL = """
    import os, signal, sys, time, torch
    from torch import nn

    cell, head = nn.RNNCell(4, 4), nn.Linear(4, 1)
    parts = [*cell.parameters()], [*head.parameters()]
    both = [torch.optim.SGD(part, lr=0.01) for part in parts]
    calls = [head(torch.zeros(2, 4))]
    for step in range(4):
        h = torch.zeros(2, 4)
        for _ in range(500):
            h = cell(torch.ones(2, 4), h)
        head(h).sum().backward()
        for optimizer in both:  # one right after the other
            optimizer.step()
        calls.append(nn.Module.__dict__["__call__"])
    print(calls[-1] is calls[-2])
    time.sleep(0.06)
    with torch.no_grad():
        for _ in range(200):
            head.eval()(h)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_calls_of_a_cell_are_few_records_and_a_killed_job_loses_little(tmp_path: Path) -> None:
    ended = run(CELL, tmp_path, status=-9, ACCELPROF_CAPTURE="off", PYTHONUNBUFFERED="1")
    assert ended.out == "True\n"
    main = ended.main()
    (cell,) = [f["id"] for f in main.fact("root") if f["name"] == "RNNCell"]
    calls = [s for s in main.of("FORWARD") if s.ident == cell]
    many = [s for s in calls if s.flags & wire.F_CALLS]
    assert sum(s.value for s in many) + len(calls) - len(many) == 2000
    assert sum(s.value for s in many) > 1000 and len(calls) < 1000
    # All of the training is there: what came 60 ms later had it written
    assert len(main.of("OPTIMIZER")) == 8 and len(main.of("BACKWARD")) == 4
    # Calls without grad may be steps of an inference: none of them stands for many
    heads = [s for s in main.of("FORWARD") if s.ident != cell]
    assert len(heads) > 4 and not any(s.flags & wire.F_CALLS for s in heads)


def test_what_ray_runs_keeps_nothing_back(tmp_path: Path) -> None:
    job = """
    import os, signal, sys, types, torch
    sys.modules["ray"] = types.ModuleType("ray")
    part = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([part], lr=0.01)
    for _ in range(3):
        part.sum().backward()
        optimizer.step()
    os.kill(os.getpid(), signal.SIGKILL)
    """
    main = run(job, tmp_path, status=-9, ACCELPROF_CAPTURE="off").main()
    assert len(main.of("OPTIMIZER")) == 3
