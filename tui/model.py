"""What the screens draw: frozen values, made by the feeds. Times are UTC ns, shares 0..1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..profiler.diagnosis.capacity import Capacity
from ..profiler.diagnosis.model import Loader, Workers
from ..profiler.report import Finding, Report
from ..profiler.series import OpPoint, Roof
from ..storage import library

Shares = Mapping[str, float]
Trend = tuple[float | None, ...]  # a value for each column of the timeline


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
    throttle: tuple[str, ...] | None = None  # what slows it down; None: not known
    kind: str = "gpu"
    sm: float | None = None
    tensor: float | None = None
    dram: float | None = None
    sm_clock_hz: float | None = None
    pcie_rx_bytes_per_s: float | None = None
    pcie_tx_bytes_per_s: float | None = None
    link: str | None = None  # "PCIe 5 x16"


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
    load_1m: float | None = None
    psi_cpu: float | None = None  # share of time in which something waited for it
    psi_io: float | None = None
    psi_memory: float | None = None
    shm_used_bytes: int | None = None
    shm_total_bytes: int | None = None
    net_rx_bytes_per_s: float | None = None
    net_tx_bytes_per_s: float | None = None
    quota_cores: float | None = None  # of the control group
    throttled: float | None = None  # share of its periods
    group_memory_bytes: int | None = None
    group_memory_limit_bytes: int | None = None


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
class Epoch:
    """Where the run stands in an epoch, and when that ends at the pace of the last minute."""

    number: int  # from 1
    batches: int  # done of it
    length: int | None  # batches; None: not known before its end
    left_s: float | None

    @property
    def share(self) -> float | None:
        return min(1.0, self.batches / self.length) if self.length else None


@dataclass(frozen=True)
class DeviceTrends:
    """Readings of each device over the columns of the timeline."""

    from_s: float
    to_s: float
    of: Mapping[int, Mapping[str, Trend]]  # device -> reading -> its means


@dataclass(frozen=True)
class StepRow:
    """One step with its phases in the usual order; the time between phases is `rest`."""

    step: int
    at_s: float  # since the run's start
    ms: float
    phases: tuple[tuple[str, float | None], ...]  # name, ms; None: not observed
    samples: int | None = None
    micro_batches: int | None = None
    captured: bool = False


@dataclass(frozen=True)
class StepsView:
    """Steps one by one."""

    recent: tuple[StepRow, ...] = ()  # before the moment shown, the newest first
    outliers: tuple[StepRow, ...] = ()  # the longest first
    usual_ms: float | None = None
    usual: Mapping[str, float | None] = field(default_factory=dict)  # medians by phase, ms


@dataclass(frozen=True)
class Worker:
    """What a loader worker did in the last minute; -1 is the training process itself."""

    number: int
    pid: int
    batches: int
    fetch_ms: float | None
    slowest_ms: float | None
    collate_ms: float | None
    cpu_share: float | None  # of the time it took to make batches
    busy_share: float | None  # of the minute it was making batches


@dataclass(frozen=True)
class InputView:
    """How batches are made, and how training waits for them."""

    loaders: tuple[Loader, ...] = ()
    chosen: Loader | None = None  # the one that feeds training
    made: Workers | None = None
    room: Capacity | None = None
    workers: tuple[Worker, ...] = ()
    steps: int = 0  # of the last minute, whose wait is known
    waited: int = 0  # of them, those that found no batch ready
    wait_p50_ms: float | None = None
    wait_p95_ms: float | None = None
    waits: Trend = ()  # share of input over the columns of the timeline


@dataclass(frozen=True)
class RoofView:
    """The captured operators under the machine's ceilings."""

    ops: tuple[OpPoint, ...] = ()
    roof: Roof | None = None
    captures: tuple[int, ...] = ()  # steps of each capture that the job has made


@dataclass(frozen=True)
class LogLine:
    at_s: float | None  # since the run's start
    kind: str
    text: str


@dataclass(frozen=True)
class LogView:
    """What the job wrote, what happened, what could not be read, accelprof's own messages."""

    lines: tuple[LogLine, ...] = ()
    output_kept: bool = False  # False: the job wrote to a terminal that is not ours


Detail = DeviceTrends | StepsView | InputView | RoofView | LogView


@dataclass(frozen=True)
class Request:
    """What a screen wants to see."""

    cursor_ns: int | None = None  # None: the newest moment
    columns: int = 100  # of the timeline, at most
    view: str = "overview"


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
    request: Request = Request()  # what it answers
    problem: str | None = None  # why nothing newer can be read
    epoch: Epoch | None = None
    details: Mapping[str, Detail] = field(default_factory=dict)  # by the view that shows them

    @property
    def of_host(self) -> bool:
        """The recording of the host's recorder, not of a run."""
        return self.id == library.DAEMON

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
    state: str = ""  # this and what follows: where it was asked
    took: str = ""
    verdict: str = ""
    sure: str = ""
