"""What the diagnosis knows about a run: plain data, read once (view.py), judged by pure functions.

Times are ns or s as named; shares are 0..1; None is "not observed", which is never 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..report import Evidence, Finding
from .hardware import Accelerator


class Step(NamedTuple):
    """A row of table `step`, in this order (see STEP_COLUMNS)."""

    pid: int
    rank: int | None
    step: int
    t_ns: int
    duration_ns: int
    kind: str | None
    data_wait_ns: int | None
    iterator_ns: int | None
    h2d_ns: int | None
    forward_ns: int | None
    backward_ns: int | None
    optimizer_ns: int | None
    checkpoint_ns: int | None
    logging_ns: int | None
    evaluation_ns: int | None
    collective_ns: int | None
    gc_ns: int | None
    pre_forward_ns: int | None
    gap_ns: int | None
    data_wait_cpu_ns: int | None
    samples: int | None
    micro_batches: int | None
    first_of_epoch: bool | None
    captured: bool | None
    # Not in files of earlier versions
    data_wait_device_ns: int | None = None
    h2d_device_ns: int | None = None


# By a pattern what a file of an earlier version may lack; `captured` for it to match something
_LAST = ("captured", "data_wait_device_ns", "h2d_device_ns")
STEP_COLUMNS = ", ".join([
    *(name for name in Step._fields if name not in _LAST), f"COLUMNS('^({'|'.join(_LAST)})$')"
])  # fmt: skip
# The phases that a hook has to see; pre_forward and gap are what is left between them
PHASES = (
    "data_wait", "h2d", "forward", "backward", "optimizer", "checkpoint", "logging",
    "evaluation", "collective",
)  # fmt: skip


class OpRow(NamedTuple):
    capture: int
    steps: int
    window_ns: int
    name: str
    phase: str
    shapes: str
    dtype: str | None
    calls: int
    flops: float | None
    bytes: float | None
    time_ns: int


@dataclass(frozen=True)
class Loader:
    """A DataLoader as the hooks saw it made."""

    num_workers: int | None = None
    batch_size: int | None = None
    prefetch: int | None = None
    persistent: bool | None = None
    context: str | None = None
    pinned: bool | None = None
    length: int | None = None  # batches an epoch
    where: str | None = None


@dataclass(frozen=True)
class Workers:
    """How batches were made. In-process batches count as one worker, the training process."""

    in_process: bool
    count: int  # distinct workers that made a batch
    batches: int
    fetch_s: float  # mean wall time of a batch
    collate_s: float | None
    cpu_s: float | None  # mean CPU time of a batch
    threads: float | None = None  # of a worker process, mean
    cpu_cores: float | None = None  # of a worker process, mean
    disk_sleep_share: float | None = None  # samples in state D
    running_share: float | None = None  # samples in state R: on a core, or waiting for one
    read_bytes_per_s: float | None = None  # of all together: what files and sockets gave
    disk_bytes_per_s: float | None = None  # of that, what came from a disk of this host


@dataclass(frozen=True)
class Host:
    """Means over the steady part unless named otherwise."""

    cpus: int | None = None  # usable: affinity and quota
    cpu_share: float | None = None
    iowait_share: float | None = None
    psi_cpu_share: float | None = None
    psi_io_share: float | None = None
    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None  # at the last sample
    memory_limit_bytes: int | None = None  # cgroup
    shm_used_peak_share: float | None = None
    shm_total_bytes: int | None = None
    quota_cores: float | None = None
    throttled_share: float | None = None
    power_w: float | None = None  # of the CPU packages
    received_bytes_per_s: float | None = None  # by the network, loopback left out
    samples: int = 0


@dataclass(frozen=True)
class Job:
    """The job's processes over the steady part."""

    cpu_cores: float | None = None  # all together, mean
    main_cpu_cores: float | None = None
    main_running: float | None = None  # samples in state R: on a core, or waiting for one
    holders: tuple[tuple[str, int], ...] = ()  # who held most at its peak: (who, bytes)
    peak_bytes: int | None = None  # PSS (else RSS) summed over the processes, over the whole run
    main_rss: tuple[tuple[int, int], ...] = ()  # (t_ns, bytes), thinned
    workers_rss: tuple[tuple[int, int], ...] = ()
    workers_died: tuple[str, ...] = ()  # how


@dataclass(frozen=True)
class DeviceUse:
    """Device counters over the steady part, mean over devices."""

    kind: str = "cpu"
    name: str = ""
    busy_share: float | None = None
    sm_share: float | None = None
    tensor_share: float | None = None
    dram_share: float | None = None
    memory_busy_share: float | None = None
    memory_peak_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_w: float | None = None
    energy_j: float | None = None
    samples: int = 0


@dataclass(frozen=True)
class Ceilings:
    """What this machine can do; from a calibration unless `source` says otherwise."""

    flops: dict[str, float]
    bytes_per_s: float
    vector_flops: dict[str, float]
    launch_s: float
    source: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Whole:
    """All steady steps of a long run, of which only some were read."""

    count: int
    duration_ns: int
    p50_ms: float
    p95_ms: float
    samples: int | None
    sums: tuple[float, ...]  # by shares.RAW
    exact: bool = True  # else as many times those of the steps that were read


@dataclass(frozen=True)
class Steady:
    """The part that is judged: after warm-up, without captured steps."""

    steps: tuple[Step, ...] = ()
    warmup: int = 0
    captured: tuple[Step, ...] = ()
    whole: Whole | None = None  # `steps` stand for more than themselves

    @property
    def duration_ns(self) -> int:
        return sum(s.duration_ns for s in self.steps)

    @property
    def count(self) -> int:
        return self.whole.count if self.whole else len(self.steps)


@dataclass(frozen=True)
class StackShares:
    """Samples of the training thread over the steady part, as shares of all of them."""

    samples: int = 0
    shares: dict[str, float] = field(default_factory=dict)
    hot: dict[str, list[tuple[str, float]]] = field(default_factory=dict)  # category -> places
    remote: float = 0.0  # share in network code
    compiling: float = 0.0  # share in torch.compile's compiler


@dataclass(frozen=True)
class Split:
    """How the work of a captured step divides; fractions of it, sum 1."""

    compute: float
    memory: float
    latency: float
    python: float
    unknown: float
    covered: float  # share of operator time with known FLOPs or bytes
    stable: bool  # the same largest part when the ceilings are off by half
    overhead: float  # share of the captured step that its own capture cost
    flops: dict[str, float]  # of a step, by the precision that they ran in
    ops: tuple[dict[str, Any], ...] = ()  # name, share, bound, efficiency; the largest first
    dtype: str | None = None
    calls_per_step: float = 0.0
    mean_op_us: float = 0.0
    sturdy: bool = True  # the same when they are off by four: measured beside other work
    named: float = 0.0  # part of operator time that was told by the operators' names alone
    stalled: float = 0.0  # part of operator time in calls far above their floor; in `unknown`
    presumed: bool = False  # by ceilings that nobody measured: true of any CPU (presumed.py)
    memory_ops: dict[str, float] = field(default_factory=dict)  # family -> share of memory time

    @property
    def host(self) -> float:
        return self.latency + self.python


class Copies(NamedTuple):
    """Captured copies of one direction, a step."""

    calls: float
    bytes: float
    seconds: float
    pageable: float  # share of the calls whose host memory is not pinned


@dataclass(frozen=True)
class Compared:
    """How the ranks compare over the steps that all of them made (ranks.py)."""

    steps: int
    peers: int
    rank: int | None  # the one that is slowest most often
    recurrence: float  # share of the steps in which it is
    excess_share: float  # of the time: what the slowest rank takes beyond the next one
    excess_s: float  # the same, a step
    others_s: float  # a step of the next slowest, without waiting
    part: str  # of the step, in which the slowest rank loses most against the mean of the others
    part_s: float  # and how much, a step
    slowest: dict[Any, float] = field(default_factory=dict)  # by process: share of the steps


@dataclass(frozen=True)
class RunView:
    """Everything a rule needs."""

    run: dict[str, Any]
    steps: tuple[Step, ...]
    steady: Steady
    shares: dict[str, float]
    observed: frozenset[str]
    split: Split | None
    ceilings: Ceilings | None
    loaders: tuple[Loader, ...] = ()
    optimizers: tuple[dict[str, Any], ...] = ()
    roots: tuple[dict[str, Any], ...] = ()
    workers: Workers | None = None
    host: Host = Host()
    job: Job = Job()
    device: DeviceUse = DeviceUse()
    stacks: StackShares = StackShares()
    worker_stacks: StackShares = StackShares()  # of loader workers while they make batches
    busy_threads: tuple[tuple[str, float], ...] = ()  # beside it: (name, share in Python)
    devices: tuple[Accelerator, ...] = ()
    gaps: tuple[tuple[str, str | None, int | None, str], ...] = ()  # source, metric, device, why
    copies: dict[str, Copies] = field(default_factory=dict)  # captured, by direction
    allocator: dict[str, float] = field(default_factory=dict)  # the device allocator's own counts
    failures: tuple[dict[str, Any], ...] = ()  # errors that hooks saw pass
    iterator_share: float | None = None  # of wall time; part of input
    gc_share: float | None = None  # of wall time; inside other phases
    uncovered_share: float = 0.0  # of wall time: no span, and stacks could not tell either
    input_by_stacks: float = 0.0  # of wall time: data made in the user's own code
    ranks: tuple[dict[str, Any], ...] = ()
    node: int = 0  # which of the given run files has the slowest rank
    compared: Compared | None = None
    parallel: tuple[dict[str, Any], ...] = ()  # models wrapped for several ranks
    samples_times: float | None = 1.0  # samples of the job's step to one of the judged rank's
    events: tuple[dict[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    now_ns: int = 0
    live: bool = False  # still being recorded
    division: Any = None  # shares.Division, for windows and the jackknife
    synchronisations: dict[str, float] = field(default_factory=dict)  # operator: calls a step
    matrix_rows: float | None = None  # rows of the activations in the captured matmuls
    has_capture: bool = False
    copied_in_data: str | None = None  # the line that copies to a device while a batch is made
    tracers: tuple[str, ...] = ()  # what runs at each line or call of the training thread
    emptied: tuple[int, str | None] | None = None  # calls of empty_cache() at least, and where
    main_threads: int | None = None  # of torch in the training process; None: its own choice
    steps_total: int = 0  # of the judged process, also those that were not read
    epoch_starts: tuple[int, ...] = ()  # ns
    outside: Any = None  # outside.Estimate of a job whose steps no hook saw
    imported: bool = False  # from another tool's trace: few steps, chosen by whoever recorded it

    @property
    def step_s(self) -> float | None:
        if self.steady.whole:
            return self.steady.whole.duration_ns / self.steady.whole.count / 1e9
        count = len(self.steady.steps)
        return self.steady.duration_ns / count / 1e9 if count else None

    @property
    def making_cores(self) -> float | None:
        """Cores that the making of batches in workers used, by the CPU time of each batch."""
        made, step_s = self.workers, self.step_s
        if made is None or made.in_process or made.cpu_s is None or not step_s:
            return None
        return made.cpu_s * made.batches / (self.steady.count * step_s)

    @property
    def job_cores(self) -> float | None:
        """Cores that the job used. Samples miss workers that live but a few of them."""
        sampled, main, making = self.job.cpu_cores, self.job.main_cpu_cores, self.making_cores
        if sampled is None or main is None or making is None:
            return sampled
        return max(sampled, main + making)

    @property
    def others_cores(self) -> float | None:
        """Cores that other processes than the job used; None when either is not known."""
        cpus, share, own = self.host.cpus, self.host.cpu_share, self.job_cores
        if not cpus or share is None or own is None:
            return None
        return max(0.0, share * cpus - own)

    @property
    def used_devices(self) -> tuple[Accelerator, ...]:
        return tuple(d for d in self.devices if d.used)

    @property
    def of_host(self) -> bool:
        """The recording of the host's always-on recorder, not of one job."""
        return bool((self.run.get("settings") or {}).get("daemon"))

    @property
    def on_cpu(self) -> bool:
        return self.device.kind == "cpu"

    @property
    def loader(self) -> Loader | None:
        """The loader that feeds training: the longest one with the workers that were seen."""
        if not self.loaders:
            return None
        used = self.loaders
        if self.workers is not None:
            fits = [x for x in used if (x.num_workers == 0) == self.workers.in_process]
            used = tuple(fits) or used
        return max(used, key=lambda x: x.length or 0)


@dataclass(frozen=True)
class Clear:
    """The rule looked and found nothing."""


@dataclass(frozen=True)
class Undecidable:
    """The rule cannot tell; `missing` says what it would need."""

    missing: str


Judgement = Finding | Clear | Undecidable
Rule = Callable[[RunView], Judgement]


def speedup_limit(share: float) -> float:
    """What removing a share of the time altogether would bring, at most."""
    return round(1.0 / max(1e-3, 1.0 - min(share, 0.999)), 2)


def evidence(text: str, metric: str, value: float | str | None = None, unit: str = "") -> Evidence:
    return Evidence(text=text, metric=metric, value=value, unit=unit)
