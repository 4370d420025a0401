"""How far chance may move a figure: a bootstrap over blocks of steady steps.

It knows the scatter within each run only. Two runs of one program differ by more than that on a
shared machine, so a difference under LEAST is called noise whatever the interval says.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from ..diagnosis.statistics import quantile
from .model import Interval
from .sides import Block

LEAST_BLOCKS = 6
RESAMPLES = 400
LEAST = 0.01  # of the ratio, and of a share: smaller differences mean nothing to anybody
Figure = Callable[[Sequence[Block]], float | None]


def scatter(blocks: Sequence[Block], figure: Figure, *, seed: int) -> list[float]:
    """The figure over resampled blocks; empty when there are too few of them."""
    if len(blocks) < LEAST_BLOCKS:
        return []
    chance = random.Random(seed)  # the same runs always give the same interval
    found = (figure(chance.choices(blocks, k=len(blocks))) for _ in range(RESAMPLES))
    return [value for value in found if value is not None]


def ratio_interval(first: Sequence[float], last: Sequence[float]) -> Interval | None:
    """95 % interval of last / first, out of their scatters."""
    pairs = [b / a for a, b in zip(first, last, strict=False) if a > 0]
    return _interval(pairs)


def difference_interval(first: Sequence[float], last: Sequence[float]) -> Interval | None:
    """95 % interval of last - first."""
    return _interval([b - a for a, b in zip(first, last, strict=False)])


def _interval(values: Sequence[float]) -> Interval | None:
    if len(values) < RESAMPLES // 2:
        return None
    low, high = quantile(values, 0.025), quantile(values, 0.975)
    return (low, high) if low is not None and high is not None else None


def ratio_is_real(ratio: float | None, interval: Interval | None) -> bool | None:
    """Whether a ratio is more than noise; None when that cannot be told."""
    if ratio is None or interval is None:
        return None
    return abs(ratio - 1.0) >= LEAST and not interval[0] <= 1.0 <= interval[1]


def difference_is_real(difference: float | None, interval: Interval | None) -> bool | None:
    """The same of a difference of shares."""
    if difference is None or interval is None:
        return None
    return abs(difference) >= LEAST and not interval[0] <= 0.0 <= interval[1]
