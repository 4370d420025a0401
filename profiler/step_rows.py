"""The rows of steps that ended: phases from their tally, samples, pauses, captures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..hooks import wire
from .accounting import PHASES, Tally

Row: TypeAlias = dict[str, Any]

# Columns of device time, by the kind of span: see wire.DEVICE
TIMED = {
    wire.DATA_WAIT: "data_wait",
    wire.H2D: "h2d",
    wire.FORWARD: "forward",
    wire.BACKWARD: "backward",
    wire.OPTIMIZER: "optimizer",
}
CAPTURE_NS = 300_000_000_000  # a capture that never says that it ended is over by then


@dataclass
class Step:
    """A step that ended and was not told yet."""

    number: int
    kind: str
    start: int
    end: int
    tally: Tally
    seen: frozenset[int]  # kinds of spans of the process up to its end


class StepRows:
    """What is known of one process beside its timeline, and its rows."""

    def __init__(self, pid: int, rank: int | None) -> None:
        self.pid = pid
        self.rank = rank
        self.sizes: dict[int, list[tuple[int, int]]] = {}  # loader: (from when, samples)
        self.told_samples: list[tuple[int, int]] = []  # when, by accelprof.samples()
        self.gc: list[tuple[int, int]] = []
        self.device: list[tuple[int, int, int]] = []  # start of a span, its kind, device time
        self._captures: list[tuple[int, int]] = []
        self._capturing: int | None = None

    def capture(self, start: int, end: int) -> None:
        """A record of no length: the capture starts; one with a length: that is what it took."""
        if end == start:
            self._capturing = start
            return
        begun = start if self._capturing is None else min(start, self._capturing)
        self._captures.append((begun, end))
        self._capturing = None

    def row(self, step: Step) -> Row:
        tally, seen = step.tally, step.seen
        row: Row = {
            "pid": self.pid, "rank": self.rank, "step": step.number, "t_ns": step.start,
            "duration_ns": step.end - step.start, "kind": step.kind,
        }  # fmt: skip
        for kind, name in PHASES.items():
            row[f"{name}_ns"] = tally.phases.get(name, 0) if kind in seen else None
        waits = wire.DATA_WAIT in seen
        row["iterator_ns"] = tally.iterator if waits else None
        row["data_wait_cpu_ns"] = _wait_cpu(tally) if waits else None
        for kind, name in TIMED.items():
            row[f"{name}_device_ns"] = self._device(step, kind)
        row["gc_ns"] = _overlap(self.gc, step.start, step.end) if wire.GC in seen else None
        forward = wire.FORWARD in seen
        row["pre_forward_ns"] = tally.pre_forward if forward else None
        row["gap_ns"] = tally.gap if forward else tally.gap + tally.pre_forward
        row["samples"] = self._samples(step)
        row["micro_batches"] = _micro_batches(tally, step.kind)
        row["first_of_epoch"] = tally.starts_epoch
        row["captured"] = self._touches_capture(step.start, step.end)
        return row

    def _device(self, step: Step, kind: int) -> int | None:
        """Device time of a step's spans of a kind; None unless it is known of all of them."""
        found = [ns for t, of, ns in self.device if of == kind and step.start <= t < step.end]
        return sum(found) if found and len(found) >= step.tally.spans.get(kind, 0) else None

    def _touches_capture(self, start: int, end: int) -> bool:
        begun = self._capturing
        if begun is not None and begun < end and start - begun < CAPTURE_NS:
            return True
        return any(low < end and high > start for low, high in self._captures)

    def _samples(self, step: Step) -> int | None:
        told = [n for t, n in self.told_samples if step.start < t <= step.end]
        if told:
            return sum(told)
        fetched = _fetched(step.tally.fetches, self.sizes, step.end)
        if fetched is not None:
            return fetched
        tally = step.tally
        by_calls = min(tally.samples.values(), default=None)
        if by_calls and tally.optimizers and not tally.backwards:  # a closure, called many times
            return None
        return by_calls

    def forget(self, before: int) -> None:
        """Drops what only concerned steps that were told."""
        for sizes in self.sizes.values():
            while len(sizes) > 1 and sizes[1][0] < before:
                del sizes[0]
        self.told_samples = [told for told in self.told_samples if told[0] > before]
        self.device = [timed for timed in self.device if timed[0] >= before]
        self.gc = [pause for pause in self.gc if pause[1] > before]
        self._captures = [capture for capture in self._captures if capture[1] > before]


def _wait_cpu(tally: Tally) -> int | None:
    """CPU time of the waits, those that were not measured in proportion."""
    waited = tally.phases.get("data_wait", 0)
    if not tally.wait_measured:
        return None if waited else 0
    return tally.wait_cpu * waited // tally.wait_measured


def _fetched(
    fetches: list[tuple[int, int]], sizes: dict[int, list[tuple[int, int]]], end: int
) -> int | None:
    """Samples of a step's batches; loaders that are read side by side count once."""
    totals: dict[int, int] = {}
    until: dict[int, int] = {}
    for loader, start in reversed(fetches):
        known = [n for t, n in sizes.get(loader, ()) if t <= until.get(loader, end)]
        if not known:
            return None
        totals[loader] = totals.get(loader, 0) + known[-1]
        until[loader] = start
    return max(totals.values()) if totals else None


def _micro_batches(tally: Tally, kind: str) -> int:
    """Batches whose gradients one step sums up."""
    by_loader: dict[int, int] = {}
    for loader, _ in tally.fetches:
        by_loader[loader] = by_loader.get(loader, 0) + 1
    fetched = max(by_loader.values(), default=0)
    if fetched:
        return min(fetched, tally.backwards) if tally.backwards else fetched
    if kind == "inference" or not tally.optimizers:
        return 1
    return max(1, tally.backwards // tally.optimizers)


def _overlap(intervals: Iterable[tuple[int, int]], start: int, end: int) -> int:
    return sum(max(0, min(high, end) - max(low, start)) for low, high in intervals)
