"""A projected time with its range, and device and host side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass


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


def beside(shown_s: float, device_s: float) -> float:
    """The host's work that makes a device's time show as `shown_s`: the inverse of join."""
    return float(max(0.0, shown_s**4 - device_s**4) ** 0.25)
