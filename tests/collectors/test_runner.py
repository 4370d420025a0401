"""Collectors run side by side: hanging, failing and finishing ones cost only their own rows."""

from __future__ import annotations

import os
import threading
import time

from accelprof.profiler.clock import Clock
from accelprof.profiler.collectors import COLLECTORS, Collector, Context, Finished, Gap
from accelprof.profiler.collectors.runner import Runner, start


class Sink:
    """Takes rows; `wait` returns when a condition on them holds."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, object]] = []
        self.changed = threading.Condition()

    def __call__(self, table, rows) -> None:
        with self.changed:
            self.rows += [(table, row) for row in rows]
            self.changed.notify_all()

    def of(self, table: str) -> list:
        return [row for name, row in self.rows if name == table]

    def wait(self, condition, timeout: float = 20) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, timeout), self.rows[-5:]


class Ticking(Collector):
    name, default_rate_hz = "ticking", 100.0

    def sample(self, t_ns):
        return [("event", (t_ns, "tick"))]


class Hanging(Collector):
    name, default_rate_hz, deadline_s = "hanging", 100.0, 0.05

    def __init__(self):
        self.release = threading.Event()
        self.interrupted = False

    def sample(self, t_ns):
        self.release.wait()
        return [("event", (t_ns, "late"))]

    def interrupt(self):
        self.interrupted = True


class Failing(Collector):
    name, default_rate_hz = "failing", 1000.0

    def __init__(self):
        self.calls = 0

    def probe(self):
        return [Gap("x", "not here", 3)]

    def sample(self, t_ns):
        self.calls += 1
        raise RuntimeError("broken" if self.calls < 4 else "worse")


class Brief(Collector):
    name, default_rate_hz = "brief", 1000.0
    closed = threading.Event()

    def sample(self, t_ns):
        raise Finished

    def close(self):
        self.closed.set()


def test_one_that_hangs_delays_nobody():
    sink, hanging = Sink(), Hanging()
    runner = Runner([hanging, Ticking()], sink)
    runner.start()
    sink.wait(lambda: len(sink.of("event")) > 20 and sink.of("gap"))
    (gap,) = sink.of("gap")
    assert gap[1:4] == ("hanging", "*", None)
    assert "longer than 0.05 s" in gap[4]
    began = time.monotonic()
    runner.close()
    assert time.monotonic() - began < 40
    assert hanging.interrupted
    hanging.release.set()


def test_a_hang_is_told_once_and_may_end():
    sink, hanging = Sink(), Hanging()
    runner = Runner([hanging], sink)
    runner.start()
    sink.wait(lambda: sink.of("gap"))
    hanging.release.set()
    sink.wait(lambda: len(sink.of("event")) > 5)
    runner.close()
    assert len(sink.of("gap")) == 1


def test_failures_are_told_once_each_and_slow_it_down():
    sink, failing = Sink(), Failing()
    runner = Runner([failing, Ticking()], sink)
    runner.start()
    sink.wait(lambda: len(sink.of("gap")) == 3)
    sink.wait(lambda: len(sink.of("event")) > 30)
    runner.close()
    assert [gap[2:] for gap in sink.of("gap")] == [
        ("x", 3, "not here"),
        ("*", None, "RuntimeError: broken"),
        ("*", None, "RuntimeError: worse"),
    ]
    assert failing.calls < 10


def test_one_that_finishes_closes():
    Brief.closed.clear()
    runner = Runner([Brief()], Sink())
    runner.start()
    assert Brief.closed.wait(10)
    runner.close()


def test_costs_are_told():
    sink = Sink()
    runner = Runner([Ticking()], sink, rates_hz={"ticking": 200})
    runner.start()
    sink.wait(lambda: len(sink.of("event")) > 10)
    runner.close()
    cost = runner.costs()["ticking"]
    assert cost["samples"] > 10
    assert 0 <= cost["longest_s"] <= cost["wall_s"]


def test_clock_jumps_are_events():
    offset = [0]
    clock = Clock(time.perf_counter_ns, lambda: time.perf_counter_ns() + offset[0])
    offset[0] = 3600 * 10**9
    sink = Sink()
    runner = Runner([], sink, clock=clock)
    runner.start()
    sink.wait(lambda: sink.of("event"))
    runner.close()
    assert [event[1] for event in sink.of("event")] == ["clock-jump"]


def test_all_collectors_start_and_stop_here():
    sink = Sink()
    runner = start(Context(job=os.getpid(), pids=lambda: [os.getpid()]), sink)
    sink.wait(lambda: sink.of("host_sample") and sink.of("process_sample"))
    runner.close()
    assert len(COLLECTORS) == 9
    sources = {"host", "processes", "files", "nvml", "dcgm", "tpu", "amd", "intel", "stacks"}
    assert set(runner.costs()) == sources
