"""From one measured time to another device: which part of it was the device, which the host?

A throughput alone does not say. Both have a prior (the model's time and its spread); every split
that gives the measured time is weighed by its probability, carried over, and averaged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

POINTS = 25
REACH = 1.5  # logarithmic range of the host time that is tried


@dataclass(frozen=True, slots=True)
class Modelled:
    """The model's times of a step on one device, in seconds."""

    device_s: float
    host_s: float
    exposed_s: float = 0.0  # gradient exchange that is not hidden


@dataclass(frozen=True, slots=True)
class Range:
    """A projected time: `mid`, and where it lies two times in three."""

    low: float
    mid: float
    high: float

    @classmethod
    def around(cls, mid: float, spread: float) -> Range:
        """`spread` is a logarithmic standard deviation."""
        return cls(mid * math.exp(-spread), mid, mid * math.exp(spread))


def join(device_s: float, host_s: float) -> float:
    """Device and host work side by side; the longer shows, a little more where they are equal."""
    return float((device_s**4 + host_s**4) ** 0.25)


def carry(
    measured_s: float,
    source: Modelled,
    target: Modelled,
    spread: dict[str, float],
) -> Range:
    """The time on the target of a step that took `measured_s` on the source; `spread` is the
    model's section of that name."""
    device_spread, host_spread = spread["device"], spread["host"]
    left = measured_s - min(source.exposed_s, 0.5 * measured_s)
    points: list[tuple[float, float]] = []
    for index in range(POINTS):
        guess = -REACH + 2.0 * REACH * index / (POINTS - 1)
        host_s = min(source.host_s * math.exp(guess), left * 0.9999)
        host = math.log(host_s / source.host_s)
        device_s = (left**4 - host_s**4) ** 0.25
        device = math.log(device_s / source.device_s)
        cost = (device / device_spread) ** 2 + (host / host_spread) ** 2
        there = join(target.device_s * math.exp(device), target.host_s * math.exp(host))
        points.append((cost, math.log(there + target.exposed_s)))
    least = min(cost for cost, _ in points)
    weights = [math.exp(-0.5 * (cost - least)) for cost, _ in points]
    total = sum(weights)
    mid = sum(w * y for w, (_, y) in zip(weights, points, strict=True)) / total
    variance = sum(w * (y - mid) ** 2 for w, (_, y) in zip(weights, points, strict=True)) / total
    return Range.around(math.exp(mid), math.sqrt(variance + spread["transfer"] ** 2))
