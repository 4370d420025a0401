"""Runs collectors: a thread and a deadline each. None delays another, and none delays the exit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..clock import Clock
from . import COLLECTORS, Collector, Context, Finished, Gap, Row

Write = Callable[[str, Sequence[Any]], None]  # RunWriter.append

WATCH_EVERY_S = 0.5
CLOSE_S = 0.5  # that long a running sample may take to return at the end
FAILURES = 5  # in a row, until a collector is sampled less often
SLOWED_S = 10.0  # between two samples then


@dataclass
class Cost:
    """What a collector took so far."""

    samples: int = 0
    wall_ns: int = 0
    longest_ns: int = 0
    cpu_ns: int = 0  # of its own thread

    def as_dict(self) -> dict[str, float]:
        return {
            "samples": self.samples,
            "wall_s": round(self.wall_ns / 1e9, 4),
            "longest_s": round(self.longest_ns / 1e9, 4),
            "cpu_s": round(self.cpu_ns / 1e9, 4),
        }


class _Lane:
    """A collector and its thread."""

    def __init__(self, collector: Collector, rate_hz: float, write: Write, clock: Clock) -> None:
        self.collector = collector
        self.period_s = 1 / rate_hz
        self.cost = Cost()
        self._write = write
        self._clock = clock
        self._stop = threading.Event()
        self._told: set[str] = set()  # reasons of failures
        self._failures = 0
        self._entered: float | None = None  # monotonic s
        self._hung = False
        self.thread = threading.Thread(
            target=self._run, name=f"collect-{collector.name}", daemon=True
        )

    def stop(self) -> None:
        self._stop.set()
        try:
            self.collector.interrupt()
        except Exception as error:
            self._failed(error)

    def watch(self) -> None:
        """From another thread: tells a call that hangs, once."""
        entered = self._entered
        if entered is None or self._hung:
            return
        if time.monotonic() - entered > self.collector.deadline_s:
            self._hung = True
            limit = f"{self.collector.deadline_s:g} s"
            self._gap([Gap("*", f"a call took longer than {limit}; its readings are missing")])

    def _run(self) -> None:
        try:
            self._guard(lambda: self._gap(self.collector.probe()))
            due = time.monotonic()
            while not self._stop.is_set() and self._guard(self._sample):
                slowed = SLOWED_S if self._failures >= FAILURES else 0.0
                # A late sample is not caught up with: what was missed is missed
                due = max(due + max(self.period_s, slowed), time.monotonic())
                self._stop.wait(due - time.monotonic())
            if self._stop.is_set():
                self._guard(self._last)
        finally:
            self.cost.cpu_ns = time.thread_time_ns()
            try:
                self.collector.close()
            except Exception as error:
                self._failed(error)

    def _guard(self, call: Callable[[], object]) -> bool:
        """Calls; False when the collector has finished."""
        self._entered = time.monotonic()
        try:
            call()
            self._failures = 0
        except Finished:
            return False
        except Exception as error:
            self._failed(error)
        finally:
            self._entered, self._hung = None, False
        return True

    def _sample(self) -> None:
        began = time.perf_counter_ns()
        rows = self.collector.sample(self._clock.now_ns())
        took = time.perf_counter_ns() - began
        cost = self.cost
        cost.samples += 1
        cost.wall_ns += took
        cost.longest_ns = max(cost.longest_ns, took)
        cost.cpu_ns = time.thread_time_ns()
        self._give(rows)

    def _last(self) -> None:
        self._give(self.collector.last(self._clock.now_ns()))

    def _give(self, rows: Iterable[Row]) -> None:
        for table, part in _by_table(rows).items():
            self._write(table, part)

    def _failed(self, error: Exception) -> None:
        """Each kind of failure is told once."""
        self._failures += 1
        reason = f"{type(error).__name__}: {error}"[:300]
        if reason not in self._told and len(self._told) < 20:
            self._told.add(reason)
            self._gap([Gap("*", reason)])

    def _gap(self, gaps: Iterable[Gap]) -> None:
        t_ns = self._clock.now_ns()
        rows = [(t_ns, self.collector.name, gap.metric, gap.device, gap.reason) for gap in gaps]
        if rows:
            self._write("gap", rows)


def _by_table(rows: Iterable[Row]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for table, row in rows:
        found.setdefault(table, []).append(row)
    return found


class Runner:
    """The running collectors. `write` is called from their threads."""

    def __init__(
        self,
        collectors: Iterable[Collector],
        write: Write,
        *,
        clock: Clock | None = None,
        rates_hz: Mapping[str, float] | None = None,
    ) -> None:
        self.clock = clock or Clock()
        self._rates = rates_hz or {}
        self._write = write
        self._lanes = [self._lane(one) for one in collectors]
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="collect-watch", daemon=True)

    def _lane(self, one: Collector) -> _Lane:
        rate_hz = max(0.01, self._rates.get(one.name, one.default_rate_hz))
        return _Lane(one, rate_hz, self._write, self.clock)

    def add(self, collectors: Iterable[Collector]) -> None:
        """Starts more of them in a runner that runs."""
        for lane in map(self._lane, collectors):
            self._lanes.append(lane)
            lane.thread.start()

    def start(self) -> None:
        for lane in self._lanes:
            if not lane.thread.is_alive():
                lane.thread.start()
        self._watcher.start()

    def _watch(self) -> None:
        while not self._stop.wait(WATCH_EVERY_S):
            for lane in list(self._lanes):
                lane.watch()
            jump = self.clock.check()
            if jump is not None:
                data = {"by_ns": jump.by_ns, "cause": jump.cause}
                self._write("event", [(jump.t_ns, "clock-jump", None, None, data)])

    def costs(self) -> dict[str, dict[str, float]]:
        """By collector: samples, wall and CPU seconds, the longest sample."""
        return {lane.collector.name: lane.cost.as_dict() for lane in self._lanes}

    def close(self) -> None:
        """Ends all of them; one that hangs is left behind. Takes CLOSE_S at the most."""
        self._stop.set()
        for lane in list(self._lanes):
            lane.stop()
        until = time.monotonic() + CLOSE_S
        for lane in self._lanes:
            if lane.thread.is_alive():
                lane.thread.join(max(0.0, until - time.monotonic()))


def make(
    context: Context, write: Write, clock: Clock, *, only: Callable[[str], bool] = lambda _: True
) -> list[Collector]:
    """This machine's collectors whose name `only` accepts. One that cannot be made is a gap."""
    made = []
    for factory in COLLECTORS:
        name = factory.__name__.strip("_")
        if not only(name):
            continue
        try:
            collector = factory(context)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            write("gap", [(clock.now_ns(), name, "*", None, reason)])
            continue
        if collector is not None:
            made.append(collector)
    return made


def start(context: Context, write: Write, *, clock: Clock | None = None) -> Runner:
    """Makes and starts all collectors; those of devices are joined where `context.joined` says."""
    clock = clock or Clock()
    if context.joined is None:
        runner = Runner(make(context, write, clock), write, clock=clock, rates_hz=context.rates_hz)
    else:
        runner = _joined(context, write, clock, context.joined)
    runner.start()
    return runner


def _joined(context: Context, write: Write, clock: Clock, folder: Path) -> Runner:
    """Devices out of the host's recorder; their own collectors when it ends."""
    from .joined import STANDS_FOR, JoinedCollector

    made = make(context, write, clock, only=lambda name: name not in STANDS_FOR)
    runner = Runner(made, write, clock=clock, rates_hz=context.rates_hz)

    def take_over() -> None:
        reason = "the host's recorder ended; devices are sampled by this run from now on"
        write("gap", [(clock.now_ns(), "daemon", None, None, reason)])
        runner.add(make(context, write, clock, only=STANDS_FOR.__contains__))

    since_ns = clock.now_ns()
    runner.add([JoinedCollector(folder, since_ns=since_ns, pids=context.pids, on_lost=take_over)])
    return runner
