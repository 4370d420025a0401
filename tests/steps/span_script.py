"""Writes span lists as a job would: a cursor of time, and one method a kind of work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from accelprof.hooks import wire
from accelprof.profiler.ring import Span
from accelprof.profiler.steps import StepBuilder

US = 1000
MS = 1000 * US
T0 = 1_700_000_000_000_000_000
TRAIN = wire.F_GRAD | wire.F_TRAINING


class Script:
    """`spans` are in order of their ends, as the hooks write them. Lengths are in ms."""

    def __init__(self, flags: int = 0) -> None:
        self.now = T0
        self.spans: list[Span] = []
        self.flags = flags  # of every span: F_OTHER_THREAD

    def span(
        self, kind: int, ms: float = 1, flags: int = 0, ident: int = 0, value: int = 0
    ) -> None:
        start = self.now
        self.now += round(ms * MS)
        self.spans.append((start, self.now, kind, flags | self.flags, ident, value))

    @contextmanager
    def inside(self, kind: int, flags: int = 0, ident: int = 0, value: int = 0) -> Iterator[None]:
        start = self.now
        yield
        self.spans.append((start, self.now, kind, flags | self.flags, ident, value))

    def idle(self, ms: float) -> None:
        self.now += round(ms * MS)

    def start(self, loader: int = 1, ms: float = 1) -> None:
        self.span(wire.DATA_WAIT, ms, wire.F_ITER_START, loader)

    def stop(self, loader: int = 1, ms: float = 1) -> None:
        self.span(wire.DATA_WAIT, ms, wire.F_ITER_END, loader)

    def fetch(self, loader: int = 1, ms: float = 2, samples: int | None = None) -> None:
        self.span(wire.DATA_WAIT, ms, 0, loader, round(ms * 500))
        if samples is not None:
            self.span(wire.BATCH, 0, 0, loader, samples)

    def forward(self, root: int = 0, ms: float = 3, value: int = 0) -> None:
        self.span(wire.FORWARD, ms, TRAIN, root, value)

    def predict(self, root: int = 0, ms: float = 3, flags: int = 0, value: int = 0) -> None:
        self.span(wire.FORWARD, ms, flags, root, value)

    def backward(self, ms: float = 4) -> None:
        self.span(wire.BACKWARD, ms)

    def step(self, optimizer: int = 0, ms: float = 1) -> None:
        self.span(wire.OPTIMIZER, ms, 0, optimizer)

    def train(self, *, loader: int | None = 1, samples: int | None = None) -> None:
        """One plain step of 10 ms (8 ms without a loader)."""
        if loader is not None:
            self.fetch(loader, samples=samples)
        self.forward()
        self.backward()
        self.step()

    def evaluate(self, batches: int, loader: int = 2, root: int = 0, ends: bool = True) -> None:
        self.start(loader)
        for _ in range(batches):
            self.fetch(loader)
            self.predict(root)
            self.idle(1)
        if ends:
            self.stop(loader)


SUMMED = (
    "data_wait_ns", "iterator_ns", "h2d_ns", "forward_ns", "backward_ns", "optimizer_ns",
    "checkpoint_ns", "logging_ns", "evaluation_ns", "collective_ns", "pre_forward_ns", "gap_ns",
)  # fmt: skip


def check(rows: list[dict]) -> list[dict]:
    """What holds for all rows, whatever the spans were."""
    for n, row in enumerate(rows):
        values = [row[name] or 0 for name in SUMMED]
        assert sum(values) == row["duration_ns"] > 0
        assert min(values) >= 0
        assert row["step"] == n
        assert (row["data_wait_cpu_ns"] or 0) <= (row["data_wait_ns"] or 0)
        if n:
            before = rows[n - 1]
            assert row["t_ns"] >= before["t_ns"] + before["duration_ns"]
    return rows


def steps(script: Script, builder: StepBuilder | None = None, chunk: int = 7) -> list[dict]:
    """The steps of a whole process, fed in small parts as they would come."""
    builder = builder or StepBuilder(1, 0)
    rows: list[dict] = []
    for at in range(0, len(script.spans), chunk):
        rows += builder.feed(script.spans[at : at + chunk]).steps
    return check(rows + builder.finish().steps)


def ms(rows: list[dict], column: str) -> list[float | None]:
    return [None if row[column] is None else row[column] / MS for row in rows]
