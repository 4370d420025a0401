"""The report of a run: the one object that every renderer draws and no renderer changes.

Field names and meanings are those of the JSON report, schema "accelprof.report/1"; `msgspec`
turns it into JSON. Shares are 0..1, times carry their unit in the name, None is "not known".
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Bottleneck = Literal[
    "input-bound", "memory-bound", "compute-bound", "transfer-bound", "host-bound",
    "communication-bound", "checkpoint-bound", "inconclusive",
]  # fmt: skip
Confidence = Literal["high", "medium", "low"]
Severity = Literal["info", "warning", "critical"]
SHARES = (
    "input", "transfer", "compute", "memory", "host",
    "communication", "checkpoint", "logging", "evaluation", "other",
)  # fmt: skip


class Evidence(msgspec.Struct, frozen=True):
    """One measured fact. `text` is complete by itself; the rest lets a program read it."""

    text: str
    metric: str
    value: float | str | None = None
    unit: str = ""


class RunInfo(msgspec.Struct):
    id: str
    name: str
    command: list[str]
    cwd: str
    host: str
    started_at: str | None  # ISO 8601, UTC
    ended_at: str | None
    wall_s: float | None
    exit_status: int | None
    state: Literal["finished", "failed", "killed", "lost", "running"]
    tags: dict[str, str] = msgspec.field(default_factory=dict)
    note: str | None = None
    attached_pid: int | None = None  # it ran before it was recorded; no hooks
    git: dict[str, Any] = msgspec.field(default_factory=dict)
    environment: dict[str, Any] = msgspec.field(default_factory=dict)


class Device(msgspec.Struct):
    index: int
    name: str
    kind: Literal["gpu", "tpu", "cpu"]
    catalogue: str | None
    memory_bytes: int | None
    ceilings: dict[str, Any]  # {"flops": {"fp32": ..}, "bytes_per_s": .., "source": ..}


class Verdict(msgspec.Struct):
    bottleneck: Bottleneck
    confidence: Confidence
    headline: str  # one sentence
    cause: str | None
    evidence: list[Evidence]
    speedup_limit: float | None  # 1 / (1 - share)
    against: list[str]  # what speaks against it, or would overturn it


class StepMs(msgspec.Struct):
    p50: float | None
    p95: float | None
    mean: float | None


class Time(msgspec.Struct):
    steps: int  # steady steps that the figures rest on
    ranks: int
    step_ms: StepMs
    samples_per_s: float | None
    steps_per_s: float | None
    epoch_s: float | None
    shares: dict[str, float]  # keys are SHARES, sum 1; empty when nothing can be said
    steps_total: int = 0
    warmup_steps: int = 0
    not_observed: list[str] = msgspec.field(default_factory=list)  # phases no hook ever saw


class Memory(msgspec.Struct):
    device_peak_bytes: int | None = None
    device_total_bytes: int | None = None
    host_peak_bytes: int | None = None
    growth_bytes_per_step: float | None = None
    largest_batch: dict[str, Any] | None = None


class Window(msgspec.Struct):
    from_s: float
    to_s: float
    bottleneck: Bottleneck
    shares: dict[str, float]


class Finding(msgspec.Struct):
    id: str
    severity: Severity
    title: str
    evidence: list[Evidence]
    advice: list[str]
    speedup_limit: float | None = None


class Hotspot(msgspec.Struct):
    where: str  # "file:line function"
    share: float  # of the phase it is a hotspot of


class OpSpot(msgspec.Struct):
    name: str
    share: float  # of captured time
    bound: Literal["compute", "memory", "latency", "unknown"]
    efficiency: float | None  # roofline floor / measured time


class Hotspots(msgspec.Struct):
    input: list[Hotspot] = msgspec.field(default_factory=list)
    ops: list[OpSpot] = msgspec.field(default_factory=list)
    host: list[Hotspot] = msgspec.field(default_factory=list)


class Loss(msgspec.Struct):
    """What one share of the time cost while the accelerators waited."""

    share: str
    accelerator_s: float
    usd: float | None = None
    energy_j: float | None = None


class Cost(msgspec.Struct):
    usd_per_hour: float | None = None
    usd: float | None = None
    accelerator_s: float | None = None
    lost_accelerator_s: float | None = None
    lost_usd: float | None = None
    energy_j: float | None = None
    price_source: str | None = None
    lost_energy_j: float | None = None  # at the power of a device that waits
    losses: list[Loss] = msgspec.field(default_factory=list)  # the largest first


class Gap(msgspec.Struct, frozen=True):
    metric: str
    reason: str


class Quality(msgspec.Struct):
    hooks: Literal["full", "partial", "none"]
    events_lost: int
    overhead_fraction: float | None
    gaps: list[Gap]
    notes: list[str] = msgspec.field(default_factory=list)
    memory_or_compute: str | None = None  # which evidence split memory from compute
    operators_covered: float | None = None  # share of captured time with known FLOPs or bytes


class HostJob(msgspec.Struct):
    """One job that the host's recorder saw."""

    name: str
    user: str
    command: str
    started_at: str | None
    ended_at: str | None  # None: it still runs
    wall_s: float | None
    processes: int
    cpu_cores: float | None  # mean
    host_peak_bytes: int | None


class Report(msgspec.Struct):
    run: RunInfo
    devices: list[Device]
    verdict: Verdict
    time: Time
    utilisation: dict[str, float | None]
    memory: Memory
    phases_over_time: list[Window]
    findings: list[Finding]
    hotspots: Hotspots
    ranks: list[dict[str, Any]]
    cost: Cost
    quality: Quality
    advice: dict[str, Any] | None = None
    jobs: list[HostJob] = msgspec.field(default_factory=list)  # of the host's recorder alone
    schema: str = "accelprof.report/1"
