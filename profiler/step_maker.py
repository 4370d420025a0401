"""Turns the spans of a step whose borders are known into its row; tells it when the next one ends.

The borders are found in steps.py, the phases in accounting.py, the row's columns in step_rows.py.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from ..hooks import wire
from .accounting import Accountant, Tally
from .ring import Span
from .step_rows import Row, Step, StepRows

Mode: TypeAlias = Literal["unknown", "train", "backward", "inference", "loading", "marked"]

PAUSE_NS = 1_000_000_000  # what comes after such a pause does not belong to the last step
MAKERS = frozenset({wire.DATA_WAIT, wire.FORWARD, wire.BACKWARD, wire.OPTIMIZER})


class Built(NamedTuple):
    """Rows for the tables `step` and `worker_batch`."""

    steps: list[Row]
    worker_batches: list[Row]


class StepMaker:
    """One a process: the step being made, and the one that ended and was not told yet."""

    def __init__(self, pid: int, rank: int | None, first_step: int) -> None:
        self._rows = StepRows(pid, rank)
        self.mode: Mode = "unknown"
        self._out = Built([], [])
        self._accountant = Accountant()
        self._seen: frozenset[int] = frozenset()  # kinds so far
        self._number = first_step
        self._held: Step | None = None
        # the step being made
        self._start: int | None = None  # where the last one ended
        self._spans: list[Span] = []
        self._tally = Tally()  # of what was summed up early
        self._reset()

    def _reset(self) -> None:
        self._applied: dict[int, int] = {}  # optimizer: steps in this step
        self._done_at: int | None = None  # end of the last call that makes this a whole step
        self._called: dict[
            int, int
        ] = {}  # root module: calls (backward: in training; loading: of loaders)
        self._backwards = 0
        self._forwards = 0
        self._waiting = False  # a batch was fetched and nothing used it yet
        self._fed = False  # a batch was fetched and used in training

    def _begin(self) -> int | None:
        """Where the step being made started."""
        if self._start is None:
            makers = [span[0] for span in self._spans if span[2] in MAKERS]
            self._start = min(makers) if makers else None
        return self._start

    def _close(self, border: int) -> None:
        """Ends the step at `border`, or later where a span reaches over it."""
        spans = self._spans
        cut = len(spans)
        while cut and spans[cut - 1][1] > border:
            cut -= 1
            if spans[cut][0] < border and spans[cut][2] == wire.BACKWARD:
                border = spans[cut][1]  # optimizers that step inside the backward
                cut = len(spans)
        kept = spans[cut:]
        self._spans = spans[:cut]
        start = self._begin()
        if start is not None:
            border = max(border, start + self._tally.total())
        if start is not None and border > start:
            kind = self.mode if self.mode in ("inference", "loading", "marked") else "train"
            self._sum(start, border)
            self._tell_held()
            if self._tally.phases.get("evaluation"):
                self._seen |= {wire.EVALUATION}
            self._held = Step(self._number, kind, start, border, self._tally, self._seen)
            self._number += 1
            self._start = border
        self._tally = Tally()
        self._spans = kept
        self._reset()

    def _sum(self, start: int, end: int) -> None:
        """Adds the kept spans to the tally; what was summed up early reaches to `_summed`."""
        begun = max(start, start + self._tally.total())
        evaluation = self.mode in ("train", "backward") or bool(
            self._seen & {wire.BACKWARD, wire.OPTIMIZER} and self.mode != "inference"
        )
        self._accountant.add(self._tally, self._spans, begun, end, evaluation=evaluation)

    def _finish_step(self) -> None:
        """Ends what is under way: a whole step is one, the rest belongs to the one before."""
        held = self._held
        if self._done_at is not None:
            self._close(self._stop(self._done_at))
        elif held and self._start == held.end and not any(map(trains, self._spans)):
            stop = self._stop(held.end)
            early, self._tally = self._tally, held.tally
            self._tally.forwarded = True
            add(self._tally, early)
            stop = max(stop, held.start + self._tally.total())
            self._spans = [span for span in self._spans if span[1] <= stop]
            self._sum(held.start, stop)
            held.end = stop
            held.seen = self._seen
            if held.tally.phases.get("evaluation"):
                held.seen |= {wire.EVALUATION}
        self._spans, self._tally, self._start = [], Tally(), None
        self._reset()

    def _stop(self, at: int) -> int:
        """How far the last step reaches beyond `at`: to a long pause, or to a step begun."""
        usual = self._held.end - self._held.start if self._held else 0
        for span in sorted(span for span in self._spans if span[1] > at):
            if span[0] > at + PAUSE_NS + usual or trains(span):
                break
            at = max(at, span[1])
        return at

    def _tell_held(self) -> None:
        step, self._held = self._held, None
        if step is not None:
            self._out.steps.append(self._rows.row(step))
            self._rows.forget(step.end)


def trains(span: Span) -> bool:
    """Whether a span is part of training, not of an evaluation or a save."""
    training = wire.F_GRAD | wire.F_TRAINING
    return span[2] == wire.BACKWARD or (span[2] == wire.FORWARD and span[3] & training == training)


def add(into: Tally, other: Tally) -> None:
    """Takes the time of another stretch into a tally; what came before its forward is a gap."""
    for name, ns in other.phases.items():
        into.phases[name] = into.phases.get(name, 0) + ns
    into.iterator += other.iterator
    into.gap += other.gap + other.pre_forward
    into.wait_cpu += other.wait_cpu
    into.wait_measured += other.wait_measured
    for kind, count in other.spans.items():
        into.spans[kind] = into.spans.get(kind, 0) + count
