"""Device time by events, on a fake device: a thread that works off a queue."""

from __future__ import annotations

from pathlib import Path

from hooked import run
from spool_reading import Process

from accelprof.hooks import wire
from accelprof.profiler.diagnosis import shares
from accelprof.profiler.diagnosis.model import Step
from accelprof.profiler.steps import StepBuilder

FAKE = """
    import queue, sys, threading, time, types, torch
    from torch.utils.data import DataLoader, Dataset

    work = queue.Queue()

    def device():
        while True:
            work.get()()

    threading.Thread(target=device, daemon=True).start()

    class Event:
        made = 0
        def __init__(self, enable_timing):
            assert enable_timing
            Event.made += 1
        def record(self):
            self.at = None
            work.put(lambda: setattr(self, "at", time.perf_counter()))
        def query(self):
            return self.at is not None
        def elapsed_time(self, other):
            return (other.at - self.at) * 1e3

    def launch(ms):
        work.put(lambda: time.sleep(ms / 1e3))

    def synchronize():
        done = threading.Event()
        work.put(done.set)
        done.wait()

    class Net(torch.nn.Linear):
        def forward(self, x):
            launch(40)  # the host goes on at once
            return super().forward(x)

    class Slow(Dataset):
        def __len__(self):
            return 8
        def __getitem__(self, n):
            time.sleep(0.02)
            return torch.ones(4)

    net = Net(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    devices = sys.modules["_accelprof_hooks.devices"]

    def epoch(wait):
        for x in DataLoader(Slow()):
            net(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if wait:
                synchronize()  # as .item() does

    epoch(False)
    assert devices.home.device is None  # all on the CPU
    torch.xpu = types.SimpleNamespace(Event=Event)
    devices.begin("xpu")
    import accelprof
    with accelprof.phase("hidden"):
        epoch(False)
        synchronize()
    with accelprof.phase("exposed"):
        epoch(True)
    net(torch.ones(4)).sum().backward()
    synchronize()
    optimizer.step()
    assert 0 < Event.made < 100, Event.made
"""


def rows(main: Process, name: str) -> list[dict]:
    """The steps within a phase, but for its first and last."""
    ident = next(f["id"] for f in main.fact("phase") if f["name"] == name)
    (phase,) = [s for s in main.of("PHASE") if s.ident == ident]
    spans = [(s.start, s.end, getattr(wire, s.kind), s.flags, s.ident, s.value) for s in main.spans]
    made = StepBuilder(1, 0)
    found = made.feed(sorted(spans, key=lambda s: s[1])).steps + made.finish().steps
    return [r for r in found if phase.start <= r["t_ns"] < phase.end][1:-1]


def test_a_wait_that_queued_work_outlasts_is_none(tmp_path: Path) -> None:
    ended = run(FAKE, tmp_path, ACCELPROF_CAPTURE="off")
    main = ended.main()
    assert not main.fact("hook_off") and not ended.err
    hidden, exposed = rows(main, "hidden"), rows(main, "exposed")
    assert len(hidden) >= 4 and len(exposed) >= 4
    for part in (hidden, exposed):
        assert min(r["data_wait_ns"] for r in part) >= 20_000_000  # as the host sees it
        timed = [r for r in part if r["forward_device_ns"] is not None]
        assert len(timed) >= 2
        assert min(r["forward_device_ns"] for r in timed) >= 40_000_000
        assert min(r["forward_ns"] for r in timed) < 40_000_000
    share = {n: _input(part) for n, part in (("hidden", hidden), ("exposed", exposed))}
    assert share["hidden"] < 0.1 and share["exposed"] > 0.2


def _input(part: list[dict]) -> float:
    steps = [Step(**{k: v for k, v in row.items() if k in Step._fields}) for row in part]
    sums = dict(zip(shares.RAW, shares.totals(steps), strict=True))
    assert abs(sum(sums.values()) - sum(s.duration_ns for s in steps)) < 1e-6 * sum(sums.values())
    return sums["input"] / sum(sums.values())
