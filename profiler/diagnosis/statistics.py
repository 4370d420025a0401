"""Small statistics in plain Python: the profiler has no numpy, and needs none for this."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

# Student's t, two-sided 99.9 %, by degrees of freedom; more than 19 blocks are never made
T_999 = (
    math.inf, 636.6, 31.6, 12.9, 8.61, 6.87, 5.96, 5.41, 5.04, 4.78, 4.59, 4.44, 4.32, 4.22,
    4.14, 4.07, 4.01, 3.97, 3.92, 3.88,
)  # fmt: skip
MAX_BLOCKS = 20


def quantile(values: Sequence[float], q: float) -> float | None:
    """Linear interpolation between the closest ranks; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def blocks(count: int, most: int = MAX_BLOCKS) -> list[tuple[int, int]]:
    """Contiguous blocks of nearly equal length: neighbouring steps are not independent."""
    number = min(most, count)
    return [(i * count // number, (i + 1) * count // number) for i in range(number)]


def jackknife_error(
    parts: Sequence[Sequence[float]], figure: Callable[[list[float]], float]
) -> float:
    """Standard error of `figure(sum of parts)` by leaving one part out; inf with fewer than 2."""
    count = len(parts)
    if count < 2:
        return math.inf
    total = [sum(column) for column in zip(*parts, strict=True)]
    left_out = [figure([t - p for t, p in zip(total, part, strict=True)]) for part in parts]
    mean = sum(left_out) / count
    return math.sqrt((count - 1) / count * sum((x - mean) ** 2 for x in left_out))


def slope(points: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """(slope, standard error) of a line through the points; None with fewer than 3."""
    count = len(points)
    if count < 3:
        return None
    mean_x = sum(x for x, _ in points) / count
    mean_y = sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if spread <= 0:
        return None
    rise = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    rest = sum((y - mean_y - rise * (x - mean_x)) ** 2 for x, y in points)
    return rise, math.sqrt(rest / (count - 2) / spread)
