"""What the charts of a run draw: frozen values over time, beside the Report.

Made from a run's file by `exports.series`; a renderer that gets them reads nothing itself. Times
are seconds since the run's start, shares 0..1; None is "no reading", which is never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Stretch:
    """Consecutive steps put together."""

    from_s: float
    to_s: float
    shares: Mapping[str, float]
    steps: int = 0
    p50_ms: float | None = None
    p95_ms: float | None = None


@dataclass(frozen=True)
class Outlier:
    """A step far longer than the usual one, and the phase that made it so."""

    at_s: float
    step: int
    ms: float
    phase: str | None = None
    phase_ms: float | None = None


@dataclass(frozen=True)
class Line:
    """Means of one reading over equal spans of time, by the middle of each."""

    name: str
    points: tuple[tuple[float, float | None], ...]


@dataclass(frozen=True)
class OpPoint:
    """A captured operator and shape, all of its calls together."""

    name: str
    phase: str
    dtype: str | None
    intensity: float  # FLOPs a byte
    flops_per_s: float
    share: float  # of captured operator time
    bound: Literal["compute", "memory", "latency", "unknown"]
    calls: int


@dataclass(frozen=True)
class Roof:
    """The ceilings over the operators."""

    flops: Mapping[str, float]
    bytes_per_s: float
    source: str


@dataclass(frozen=True)
class Series:
    """Everything over time of one run. Empty where nothing was recorded."""

    length_s: float = 0.0
    stretches: tuple[Stretch, ...] = ()
    outliers: tuple[Outlier, ...] = ()
    use: tuple[Line, ...] = ()  # shares of devices and CPUs
    memory: tuple[Line, ...] = ()  # bytes
    memory_limits: Mapping[str, int] = field(default_factory=dict)  # bytes, by name of a line
    power: tuple[Line, ...] = ()  # watts
    ops: tuple[OpPoint, ...] = ()
    roof: Roof | None = None
