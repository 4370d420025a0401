"""From the steps of trials to throughput with an interval. Pure; times in s.

A trial's steady part leaves out its warm-up and the batches that the workers had ready by then.
Where whole epochs fit in, only whole epochs count: the start of the workers belongs to them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ..diagnosis.statistics import jackknife_error, quantile

FEWEST = 8  # steady steps that say anything
MOST_DROPPED = 400  # steps before the steady part, whatever the workers had ready
MOST_BLOCKS = 12
SIGMA = 0.03  # logarithmic scatter between trials of one setting, before there are repeats
SIGMA_WEIGHT = 2.0  # how many repeats that guess is worth
Z = 2.0  # of a 95 % interval
SLOW_START = 1.25  # a warm-up step takes this much more than the usual one


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a trial. `time_s` is without checkpoint and evaluation."""

    time_s: float
    samples: int | None
    starts_epoch: bool
    wait_s: float = 0.0


@dataclass(frozen=True)
class Measured:
    """A trial's steady part in blocks of (s, samples or steps)."""

    steps: int
    blocks: tuple[tuple[float, float], ...]
    counts_samples: bool
    epochs: int = 0  # whole epochs in it

    @property
    def rate(self) -> float:
        """Samples a second; steps a second where samples are not known."""
        time_s = sum(t for t, _ in self.blocks)
        return sum(n for _, n in self.blocks) / time_s if time_s > 0 else 0.0

    @property
    def error(self) -> float:
        """Relative standard error within the trial."""
        if self.rate <= 0:
            return math.inf
        return jackknife_error(self.blocks, lambda s: s[1] / s[0] if s[0] > 0 else 0.0) / self.rate


def measured(steps: Sequence[Step], ready: int, workers: int) -> Measured | None:
    """The steady part of a trial whose workers may hold `ready` batches; None: too few steps."""
    dropped = _warm_up(steps, ready)
    kept, epochs = _whole_epochs(list(steps[dropped:]))
    if len(kept) < FEWEST:
        return None
    counts = all(step.samples for step in kept)
    # Workers that started together deliver in bursts: a block holds several of their rounds.
    number = max(2, min(MOST_BLOCKS, len(kept) // max(2, 2 * workers)))
    cuts = [i * len(kept) // number for i in range(number + 1)]
    blocks = tuple(
        (
            sum(s.time_s for s in kept[a:b]),
            float(sum(s.samples or 0 for s in kept[a:b]) if counts else b - a),
        )
        for a, b in pairwise(cuts)
    )
    return Measured(len(kept), blocks, counts, epochs)


def _warm_up(steps: Sequence[Step], ready: int) -> int:
    """Steps to leave out: the slow start, and as many as batches were ready when it ended."""
    if len(steps) < 3:
        return len(steps)
    usual = quantile([s.time_s for s in steps[len(steps) // 3 :]], 0.9) or 0.0
    slow = 1
    while slow < len(steps) // 4 and steps[slow].time_s > SLOW_START * usual:
        slow += 1
    return min(len(steps), slow + min(ready, MOST_DROPPED))


def _whole_epochs(steps: list[Step]) -> tuple[list[Step], int]:
    """The steps from one epoch's start to another's; without such, those in the middle of one."""
    starts = [n for n, step in enumerate(steps) if step.starts_epoch]
    if len(starts) >= 2:
        return steps[starts[0] : starts[-1]], len(starts) - 1
    # One border alone would weigh a restart against a piece of an epoch.
    return [step for step in steps if not step.starts_epoch], 0


@dataclass(eq=False)
class Arm:
    """One setting and what its trials measured."""

    settings: dict[str, Any]
    replay: bool = False
    trials: list[Measured] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)  # how each of its trials ended
    hopeless: bool = False
    problem: str | None = None  # why it cannot be had

    @property
    def usable(self) -> bool:
        return bool(self.trials) and self.problem is None

    @property
    def rate(self) -> float:
        """The geometric mean of its trials."""
        if not self.trials:
            return 0.0
        return math.exp(sum(math.log(t.rate) for t in self.trials) / len(self.trials))

    @property
    def steps(self) -> int:
        return sum(t.steps for t in self.trials)


def sigma_between(arms: Sequence[Arm]) -> float:
    """Logarithmic scatter between trials of one setting, pooled over all that were repeated."""
    squares, freedom = SIGMA**2 * SIGMA_WEIGHT, SIGMA_WEIGHT
    for arm in arms:
        if len(arm.trials) > 1:
            mean = math.log(arm.rate)
            squares += sum((math.log(t.rate) - mean) ** 2 for t in arm.trials)
            freedom += len(arm.trials) - 1
    return math.sqrt(squares / freedom)


def error(arm: Arm, sigma: float) -> float:
    """Relative standard error of an arm's rate."""
    count = len(arm.trials)
    if not count:
        return math.inf
    within = sum(min(t.error, 1.0) ** 2 for t in arm.trials) / count**2
    return math.sqrt(within + sigma**2 / count)


def interval(arm: Arm, sigma: float) -> tuple[float, float] | None:
    """95 % interval of an arm's rate."""
    if not arm.trials:
        return None
    spread = math.exp(Z * error(arm, sigma))
    return arm.rate / spread, arm.rate * spread


def gain_interval(best: Arm, base: Arm, sigma: float) -> tuple[float, float]:
    """95 % interval of best / base."""
    both = math.hypot(error(best, sigma), error(base, sigma))
    ratio, spread = best.rate / base.rate, math.exp(Z * both)
    return ratio / spread, ratio * spread


def sure(best: Arm, base: Arm, sigma: float) -> float:
    """Probability that the best is really faster than the base."""
    both = math.hypot(error(best, sigma), error(base, sigma))
    return 0.5 * (1.0 + math.erf(math.log(best.rate / base.rate) / both / math.sqrt(2.0)))
