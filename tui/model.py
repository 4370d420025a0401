"""What the screens draw: frozen values, made by the feeds. Times are UTC ns, shares 0..1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..profiler.report import Finding, Report

Shares = Mapping[str, float]


@dataclass(frozen=True)
class Column:
    """One stretch of the timeline."""

    from_ns: int
    to_ns: int
    shares: Shares  # empty: no step began in it
    steps: int = 0
    p50_ms: float | None = None
    p95_ms: float | None = None


@dataclass(frozen=True)
class Pace:
    """Steps of the last minute before the moment shown."""

    steps_per_s: float | None = None
    samples_per_s: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    shares: Shares = field(default_factory=dict)


@dataclass(frozen=True)
class Accelerator:
    index: int
    name: str
    busy: float | None
    memory_busy: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    power_w: float | None
    power_limit_w: float | None
    temperature_c: float | None


@dataclass(frozen=True)
class Machine:
    """The host and its accelerators at the moment shown."""

    accelerators: tuple[Accelerator, ...] = ()
    cores: tuple[float | None, ...] = ()
    cpu: float | None = None
    iowait: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    read_bytes_per_s: float | None = None
    write_bytes_per_s: float | None = None


@dataclass(frozen=True)
class Process:
    pid: int
    role: str  # "rank 0", "worker 3", "main", ...
    command: str
    cpu_cores: float | None
    rss_bytes: int | None
    read_bytes_per_s: float | None
    write_bytes_per_s: float | None
    threads: int | None
    state: str | None


@dataclass(frozen=True)
class Snapshot:
    """One moment of a run."""

    id: str
    name: str
    state: str
    live: bool
    started_ns: int
    ended_ns: int  # the end, or now
    cursor_ns: int  # the moment shown
    report: Report
    pace: Pace = field(default_factory=Pace)
    columns: tuple[Column, ...] = ()
    step_ceiling_ms: float | None = None  # the top of the chart of step times
    machine: Machine = field(default_factory=Machine)
    processes: tuple[Process, ...] = ()
    bottleneck_now: str | None = None  # of the window that holds the cursor
    problem: str | None = None  # why nothing newer can be read

    @property
    def elapsed_s(self) -> float:
        return (self.cursor_ns - self.started_ns) / 1e9

    @property
    def length_s(self) -> float:
        return (self.ended_ns - self.started_ns) / 1e9

    @property
    def findings(self) -> list[Finding]:
        return self.report.findings


@dataclass(frozen=True)
class HostSnapshot:
    """The machine when no run is shown."""

    host: str
    machine: Machine
    processes: tuple[Process, ...] = ()
    problem: str | None = None


@dataclass(frozen=True)
class RunChoice:
    """A run in the picker."""

    folder: str
    id: str
    name: str
    command: str
    started_ns: int | None
