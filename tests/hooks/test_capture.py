"""Captures: when, when not, and nothing of it where the job could see it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hooked import both, run
from spool_reading import Process, Span

LOOP = """
    import accelprof, sys, time, torch
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(8, 64)

    def step():
        optimizer.zero_grad()
        value = model(x).sum()
        value.backward()
        optimizer.step()
        return value.item()

    end = time.monotonic() + float(sys.argv[1])
    WORK
"""
TRAIN = """
    import os
    while time.monotonic() < end: step()
    print(os.environ.get("KINETO_LOG_LEVEL"), flush=True)
    os.system("echo level=$KINETO_LOG_LEVEL")
"""


def names(path: Path) -> set[str]:
    trace = json.loads(path.read_text())
    return {e["name"] for e in trace["traceEvents"] if e.get("cat") == "cpu_op"}


def captured(main: Process) -> list[Span]:
    """A capture's span; one of no length told its start."""
    return [s for s in main.of("CAPTURE") if s.end > s.start]


def test_training_is_captured_once_and_silently(tmp_path: Path) -> None:
    _, ours = both(LOOP.replace("WORK", TRAIN), tmp_path, "1.0")
    assert ours.out.endswith("level=\n")
    main = ours.main()
    (capture,) = main.fact("capture")
    (span,) = captured(main)
    assert capture["steps"] == span.value and 1 <= span.value <= 4
    assert capture["start_ns"] < capture["end_ns"]
    assert span.end - span.start >= capture["end_ns"] - capture["start_ns"]
    path = ours.spool / capture["file"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert {"aten::linear", "aten::addmm", "aten::relu"} <= names(path)
    shapes = [e["args"].get("Input Dims") for e in json.loads(path.read_text())["traceEvents"]
              if e.get("name") == "aten::addmm"]  # fmt: skip
    assert [[64], [8, 64], [64, 64], [], []] in shapes
    # The captured steps are whole ones
    inside = [s for s in main.of("OPTIMIZER") if span.start <= s.start and s.end <= span.end]
    assert len(inside) == span.value
    assert len([f for f in ours.spool.iterdir() if f.suffix == ".part"]) == 0


def test_inference_is_captured(tmp_path: Path) -> None:
    work = "\n    with torch.no_grad():\n        while time.monotonic() < end: model(x)"
    ours = run(LOOP.replace("WORK", work), tmp_path, "1.0")
    (capture,) = ours.main().fact("capture")
    assert "aten::addmm" in names(ours.spool / capture["file"])
    assert not ours.err


def test_marked_steps_are_captured(tmp_path: Path) -> None:
    work = "\n    while time.monotonic() < end:\n        step(); step(); accelprof.step()"
    ours = run(LOOP.replace("WORK", work), tmp_path, "1.5")
    main = ours.main()
    (span,) = captured(main)
    inside = [s for s in main.of("OPTIMIZER") if span.start <= s.start and s.end <= span.end]
    assert len(inside) == 2 * span.value


@pytest.mark.parametrize(("mode", "captures"), [("off", 0), ("7", 1)])
def test_modes(tmp_path: Path, mode: str, captures: int) -> None:
    work = "for _ in range(20): step()"
    ours = run(LOOP.replace("WORK", work), tmp_path, "0", ACCELPROF_CAPTURE=mode)
    main = ours.main()
    assert len(main.fact("capture")) == captures
    if captures:
        (span,) = captured(main)
        assert len([s for s in main.of("OPTIMIZER") if s.end < span.start]) == 7


def test_a_request_in_the_control_word(tmp_path: Path) -> None:
    work = """
    import glob, os, struct
    step()
    (ring,) = glob.glob(os.environ["ACCELPROF_SPOOL"] + "/*.ring")
    def captures():
        found = glob.glob(os.environ["ACCELPROF_SPOOL"] + "/*.facts")
        return sum(open(path).read().count('"k": "capture"') for path in found)
    for number, request in enumerate((1 << 8 | 3, 2 << 8 | 1), 1):
        with open(ring, "r+b") as file:
            file.seek(64)
            file.write(struct.pack("@Q", request))
        end = time.monotonic() + 40
        while captures() < number and time.monotonic() < end: step()
"""
    ours = run(LOOP.replace("WORK", work), tmp_path, "0", ACCELPROF_CAPTURE="off")
    assert [f["steps"] for f in ours.main().fact("capture")] == [3, 1]


@pytest.mark.parametrize("schedule", [False, True])
def test_the_jobs_own_profiler_is_left_alone(tmp_path: Path, schedule: bool) -> None:
    arguments = "schedule=torch.profiler.schedule(wait=2, warmup=30, active=2)" * schedule
    work = f"""
    from torch.profiler import profile
    for _ in range(5): step()
    with profile(activities=[torch.profiler.ProfilerActivity.CPU], {arguments}) as prof:
        while time.monotonic() < end:
            step(); prof.step()
            if prof.step_num == 34: break
    print(any(e.key == "aten::addmm" for e in prof.key_averages()))
    end = time.monotonic() + 0.6
    while time.monotonic() < end: step()
"""
    ours = run(LOOP.replace("WORK", work), tmp_path, "1.0")
    main = ours.main()
    assert ours.out == "True\n" and not main.fact("capture")
    assert any("profiler of its own" in f["text"] for f in main.fact("note"))


def test_a_profiler_made_while_ours_runs_is_whole(tmp_path: Path) -> None:
    work = """
    from torch.autograd.profiler import profile
    for _ in range(8): step()
    with profile() as prof:
        step()
    print(sorted({e.key for e in prof.key_averages()} & {"aten::addmm", "aten::relu"}))
"""
    ours = run(LOOP.replace("WORK", work), tmp_path, "0", ACCELPROF_CAPTURE="8")
    assert ours.out == "['aten::addmm', 'aten::relu']\n"
    assert not ours.main().fact("capture") and captured(ours.main())


def test_an_end_or_a_fork_while_a_capture_runs(tmp_path: Path) -> None:
    work = """
    import os
    for _ in range(8): step()
    if os.fork() == 0:
        step(); os._exit(0)
    print(os.wait()[1])
    for _ in range(3): step()
"""
    ours = run(LOOP.replace("WORK", work), tmp_path, "0", ACCELPROF_CAPTURE="8")
    main = ours.main()
    assert (ours.out, ours.err) == ("0\n", "")
    assert not main.fact("capture") and len(captured(main)) == 1
    work = "for _ in range(8): step()"
    ours = run(LOOP.replace("WORK", work), tmp_path / "end", "0", ACCELPROF_CAPTURE="8")
    assert ours.main().fact("exit") and not ours.main().fact("capture") and not ours.err
