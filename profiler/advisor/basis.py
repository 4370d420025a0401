"""What a recorded run says that a projection can rest on; all times in s a step."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from ...hooks import wire
from ..accelerators.catalogue import Accelerator, find
from ..diagnosis import examine, sources
from ..diagnosis.model import OpRow, RunView
from ..diagnosis.view import Reader
from ..errors import UserError
from ..report import Report
from ..reports.content import changes
from ..traces.kineto import COPY_PHASE, GAP_ROW, LOADER_ROW
from ..traces.saved import EVENT, Activations
from .decoder import Shape, shape
from .operators import CONVOLUTIONS, Operator

# Shares of a step that another accelerator does not change
FIXED = ("checkpoint", "logging", "evaluation", "other")


@dataclass(frozen=True)
class Basis:
    """A run, as the projection sees it."""

    run: str
    on_cpu: bool
    source: Accelerator | None  # the device that the operators ran on; None: CPU or unknown card
    source_name: str
    count: int  # devices of the run
    step_s: float | None
    shares: dict[str, float]
    batch: int | None  # samples a step and device
    samples_per_step: float | None  # all devices
    epoch_steps: float | None
    steps_total: int
    trains: bool
    operators: list[Operator]
    covered: float  # share of operator time with known FLOPs and bytes
    host_s: float | None  # the host's own work: dispatch and Python
    loader_s: float | None  # what the workers need for one batch, working side by side
    in_process: bool  # the training thread makes the batches itself
    parameters: int | None
    parameter_bytes: int | None
    optimizer: str | None
    device_peak_bytes: int | None
    input_cause: str | None
    speedup_limit: float | None
    first_advice: str | None = None  # what the report says to change first
    custom_operators: list[str] = field(default_factory=list)
    state_bytes: int | None = None  # that the optimizer keeps, as measured
    gradient_bytes: int | None = None  # of all that is trained
    foreach: bool = False  # the optimizer works on all tensors at once
    activations: Activations | None = None
    libraries: tuple[str, ...] = ()  # loaded beside torch
    operator_libraries: tuple[str, ...] = ()  # with CUDA operators of their own
    dynamic_operators: tuple[str, ...] = ()  # captured ones whose result's shape follows the data
    attention: Shape | None = None
    batch_sizes: int = 1  # different ones among the steady steps

    @property
    def precision(self) -> str | None:
        """The precision that most of the matrix work ran in."""
        flops: dict[str, float] = defaultdict(float)
        for op in self.operators:
            if op.kind in ("gemm", "attention", *CONVOLUTIONS) and op.dtype:
                flops[op.dtype] += op.flops or 0.0
        return max(flops, key=lambda k: flops[k]) if flops else None

    @property
    def evidence(self) -> str:
        """What the projection rests on: capture-gpu | capture-cpu | none."""
        if not self.operators:
            return "none"
        return "capture-cpu" if self.on_cpu else "capture-gpu"

    def seconds(self, *names: str) -> float:
        """Time a step of these shares."""
        return sum(self.shares.get(n, 0.0) for n in names) * (self.step_s or 0.0)


def read(reader: Reader) -> Basis:
    """The basis of an opened run."""
    report, view = examine(reader)
    pid = view.steps[0].pid if view.steps else None
    basis = build(report, view, sources.ops(reader, pid), _activations(reader))
    told = [
        fact
        for process in sources.processes(reader)
        for fact in process["facts"]
        if fact.get("k") == wire.FACT_LIBRARIES
    ]
    return replace(
        basis, libraries=_names(told, "names"), operator_libraries=_names(told, "operators")
    )


def _names(facts: Sequence[dict[str, Any]], key: str) -> tuple[str, ...]:
    found = {n for f in facts if isinstance(f.get(key), list) for n in f[key] if isinstance(n, str)}
    return tuple(sorted(found))


def _activations(reader: Reader) -> Activations | None:
    """Of the newest capture."""
    newest = "SELECT data FROM event WHERE kind = ? ORDER BY t_ns DESC LIMIT 1"
    for (data,) in reader.rows(newest, [EVENT]):
        try:
            return msgspec.json.decode(data, type=Activations)
        except (msgspec.MsgspecError, TypeError):
            return None
    return None


def build(
    report: Report, view: RunView, rows: Sequence[OpRow], activations: Activations | None = None
) -> Basis:
    device = report.devices[0] if report.devices else None
    on_cpu = view.on_cpu
    ranks = max(1, report.time.ranks)
    operators, covered = per_step(rows)
    if all(op.kind == "view" for op in operators):
        operators = []  # a trace of allocations and views tells no work
    samples = _samples(view)
    optimizers = [o for o in view.optimizers if isinstance(o.get("parameters"), int)]
    roots = [r for r in view.roots if isinstance(r.get("parameters"), int)]
    held = optimizers or roots
    mean = report.time.step_ms.mean
    return Basis(
        run=report.run.id, on_cpu=on_cpu, source=None if on_cpu else _catalogue(device),
        source_name=device.name if device else "unknown device", count=ranks,
        step_s=mean / 1e3 if mean else None,
        shares=_work_is_told(report.time.shares, view, operators),
        batch=round(samples) if samples else None,
        samples_per_step=samples * ranks if samples else None,
        epoch_steps=_epoch_steps(view), steps_total=report.time.steps_total,
        trains=bool(view.optimizers) or any(r.phase == "backward" for r in rows),
        operators=operators, covered=covered, host_s=_host_s(view, operators, report),
        loader_s=_loader_s(view), in_process=view.workers is None or view.workers.in_process,
        parameters=max((int(o["parameters"]) for o in held), default=None),
        parameter_bytes=max((int(r["bytes"]) for r in roots if r.get("bytes")), default=None),
        optimizer=str(optimizers[0].get("name")) if optimizers else None,
        device_peak_bytes=report.memory.device_peak_bytes,
        input_cause=report.verdict.cause if report.verdict.bottleneck == "input-bound" else None,
        speedup_limit=report.verdict.speedup_limit, first_advice=_first_advice(report),
        custom_operators=_custom(rows),
        state_bytes=_sum(optimizers, "state_bytes"), gradient_bytes=_sum(optimizers, "bytes"),
        foreach=any(o.get("foreach") is not False and not o.get("fused") for o in optimizers),
        activations=activations, dynamic_operators=_dynamic(rows),
        attention=shape(rows),
        batch_sizes=len({s.samples for s in view.steady.steps if s.samples}) or 1,
    )  # fmt: skip


def _work_is_told(
    shares: dict[str, float], view: RunView, operators: list[Operator]
) -> dict[str, float]:
    """Work that the report could not divide into compute and memory (no ceilings known) is the
    captured operators' all the same: it moves with them, and does not stay."""
    loose = min(shares.get("other", 0.0), view.uncovered_share)
    if not operators or loose <= 0.0:
        return shares
    return shares | {
        "other": shares["other"] - loose, "compute": shares.get("compute", 0.0) + loose,
    }  # fmt: skip


def _sum(facts: Sequence[dict[str, Any]], key: str) -> int | None:
    known = [f[key] for f in facts if isinstance(f.get(key), int)]
    return sum(known) if known else None


def per_step(rows: Sequence[OpRow]) -> tuple[list[Operator], float]:
    """The captured operators of one step, and the share of their time that has FLOPs and bytes."""
    steps = sum({r.capture: max(1, r.steps) for r in rows}.values()) or 1
    made, known, total = [], 0.0, 0.0
    for row in rows:
        if row.name in (GAP_ROW, LOADER_ROW) or row.phase == COPY_PHASE:
            continue
        total += row.time_ns
        sized = row.flops is not None and row.bytes is not None
        known += row.time_ns if sized else 0
        made.append(_operator(row, steps))
    return made, known / total if total else 0.0


def _operator(row: OpRow, steps: int) -> Operator:
    op = Operator.of(
        row.name, row.shapes, row.dtype, calls=row.calls, flops=row.flops, bytes=row.bytes,
        time_s=row.time_ns / 1e9 / steps, phase=row.phase,
    )  # fmt: skip
    op.calls = max(1, math.ceil(row.calls / steps))
    op.flops = None if op.flops is None else op.flops / steps
    op.bytes = None if op.bytes is None else op.bytes / steps
    return op


def _samples(view: RunView) -> float | None:
    """Mean samples of a steady step on one device."""
    counted = [s.samples for s in view.steady.steps if s.samples]
    return sum(counted) / len(counted) if counted else None


def _epoch_steps(view: RunView) -> float | None:
    loader = view.loader
    if loader is None or not loader.length:
        return None
    micro = [s.micro_batches for s in view.steady.steps if s.micro_batches]
    return loader.length / (sum(micro) / len(micro) if micro else 1.0)


def _catalogue(device: Any) -> Accelerator | None:
    if device is None or not device.catalogue:
        return None
    try:
        return find(device.catalogue)
    except UserError:
        return None


# Findings on the machine as it was asked for; what they advise makes no step shorter
OF_THE_MACHINE = ("idle-device", "oversized-cluster", "upgrade-would-not-help")


def _first_advice(report: Report) -> str | None:
    """Of the verdict's cause, else what is worth most."""
    told = [c for c in changes(report) if c.finding.id not in OF_THE_MACHINE]
    told.sort(key=lambda c: c.finding.id != report.verdict.cause)
    return told[0].text.partition("; ")[0].rstrip(".") if told else None


def _host_s(view: RunView, operators: list[Operator], report: Report) -> float | None:
    """The host's work of a step that no accelerator takes over: Python between the operators."""
    if not operators:
        return None
    step = (report.time.step_ms.mean or 0.0) / 1e3
    if not view.on_cpu:
        return report.time.shares.get("host", 0.0) * step
    return view.split.python * _work_s(report) if view.split else 0.0


def _work_s(report: Report) -> float:
    names = ("compute", "memory", "host")
    step = (report.time.step_ms.mean or 0.0) / 1e3
    return sum(report.time.shares.get(n, 0.0) for n in names) * step


def _loader_s(view: RunView) -> float | None:
    """Time a batch takes from workers side by side; None without workers."""
    workers = view.workers
    if workers is None or workers.in_process or not workers.count:
        return None
    return (workers.fetch_s + (workers.collate_s or 0.0)) / workers.count


# Results whose shape depends on values, and values that go to the host
DYNAMIC = ("nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "bincount",
           "repeat_interleave", "_local_scalar_dense")  # fmt: skip


def _dynamic(rows: Sequence[OpRow]) -> tuple[str, ...]:
    names = {r.name.removeprefix("aten::") for r in rows if r.phase != "optimizer"}
    return tuple(sorted(names & set(DYNAMIC)))


def _custom(rows: Sequence[OpRow]) -> list[str]:
    """Operators of other libraries, by name: `namespace::operator`."""
    known = ("aten::", "autograd::", "prim::", "torch::", "c10d::", "nccl:", "record_param_comms")
    names = {r.name for r in rows if "::" in r.name and not r.name.startswith(known)}
    return sorted(names)[:20]
