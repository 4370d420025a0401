"""Finds the steady part of a run from its step times."""

from __future__ import annotations

from collections.abc import Sequence

from .model import Steady, Step
from .statistics import quantile

RUN = 5  # steps that have to look alike before warm-up counts as over
SLOWER = 1.25  # a warm-up step is at least this much slower than the usual step
MOST_STEPS = 200  # warm-up is not searched for beyond this step, nor beyond a quarter of the run


def find(steps: Sequence[Step], *, settled: bool = False) -> Steady:
    """Steps after warm-up, without captured ones.

    The first step always goes: allocations, first compilation and the start of the workers are in
    it. More go while a run of steps is clearly slower than the later part of the run and than
    that part's own scatter; a run that checkpoints every other step is not warm-up. An imported
    trace is `settled`: whoever recorded it chose its steps.
    """
    plain = [s for s in steps if not s.captured and s.duration_ns > 0]
    captured = tuple(s for s in steps if s.captured)
    if settled:
        return Steady(steps=tuple(plain), captured=captured)
    if len(plain) < 2:
        return Steady(steps=(), warmup=len(plain), captured=captured)
    drop = 1 + _before_training(plain)
    drop += _slow_start([_work_ns(s) for s in plain[drop:]])
    return Steady(steps=tuple(plain[drop:]), warmup=drop, captured=captured)


def _before_training(steps: Sequence[Step]) -> int:
    """Until the job's optimizer first steps, each forward looks like a step of inference: of a
    rollout, of accumulated gradients, of a check before training. They are no steps like the rest.
    """
    first = next((i for i, s in enumerate(steps) if s.kind == "train"), 0)
    before = sum(s.duration_ns for s in steps[:first])
    return first if before < sum(s.duration_ns for s in steps[first:]) else 0


def _work_ns(step: Step) -> int:
    """A step without its wait for data: a cold page cache is the input's, and no warm-up."""
    return max(0, step.duration_ns - (step.data_wait_ns or 0) - (step.iterator_ns or 0))


def _slow_start(durations: list[int]) -> int:
    count = len(durations)
    if count < 3 * RUN:
        return 0
    later = durations[count // 3 :]
    usual = quantile(later, 0.5) or 0.0
    high = quantile(later, 0.9) or 0.0
    limit = max(usual * SLOWER, high)
    for at in range(min(MOST_STEPS, count // 4) + 1):
        window = durations[at : at + RUN]
        if durations[at] <= limit and (quantile(window, 0.5) or 0.0) <= limit:
            return at
    return 0  # it never settles: judged as it is


def batches_a_step(steps: Sequence[Step]) -> float:
    """Whose gradients a step sums up, mean; 1.0 where no step tells."""
    told = [step.micro_batches for step in steps if step.micro_batches]
    return sum(told) / len(told) if told else 1.0
