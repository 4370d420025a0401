"""A run on another accelerator: the step taken apart, its device part moved, put together again.

device    operator by operator: the measured time over the model's on the source, times the
          model's on the target, so that the job's own efficiency is kept
host      Python and dispatch: unchanged, beside the device, the longer one shows
input     unchanged; workers that could not keep up before set the pace on any accelerator
fixed     checkpoint, logging, evaluation, other: unchanged
exchange  gradients over the target's link
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from ..accelerators.catalogue import Accelerator
from . import curves
from .basis import FIXED, Basis
from .operators import CONVOLUTIONS, SIZES, STREAMS, Operator
from .transfer import Range, beside, join

# A measured operator is at most this far from the model: beyond, its FLOPs or bytes are wrong.
MOST_OFF = 8.0
STARVED = 0.05  # input share from which the loader, not chance, makes the device wait


@dataclass(frozen=True)
class Projected:
    """A step on a target, `count` devices side by side."""

    step: Range  # s
    bottleneck: str
    busy_share: float  # of the step, device working
    parts_s: dict[str, float]
    update_share: float  # of the device's part, the optimizer


@dataclass
class _Sums:
    total: float = 0.0
    compute: float = 0.0
    memory: float = 0.0
    update: float = 0.0  # of the total, the optimizer's

    @property
    def update_share(self) -> float:
        return self.update / self.total if self.total else 0.0


def project(
    basis: Basis, device: Accelerator, *, count: int = 1, precision: str | None = None
) -> Projected | None:
    """The step on `device`; None without operators, or where a precision or figure is missing."""
    if not basis.operators or not basis.step_s:
        return None
    if device is basis.source and count == basis.count and precision is None:
        return _unchanged(basis, device)
    sums = _device_sums(basis, device, precision)
    if sums is None:
        return None
    model, update_share = curves.parameters(), sums.update_share
    work_s = _work_s(basis, device, sums, model)
    parts = {
        "device": min(sums.total, work_s), "host": max(0.0, work_s - sums.total),
        "input": basis.seconds("input"), "transfer": basis.seconds("transfer"),
        "communication": _exchange_s(basis, device, count, precision),
        "fixed": basis.seconds(*FIXED),
    }  # fmt: skip
    spread = _spread(basis, device, model)
    low, mid, high = (
        together_s(basis, parts, count, math.exp(sign * spread)) for sign in (-1.0, 0.0, 1.0)
    )
    parts["wait"] = max(0.0, mid - sum(parts.values()))
    return Projected(
        Range(min(low, mid), mid, max(high, mid)),
        _bottleneck(parts, sums),
        parts["device"] / mid,
        parts, update_share,
    )  # fmt: skip


def _unchanged(basis: Basis, device: Accelerator) -> Projected:
    """The device of the run itself: what was measured."""
    step_s = basis.step_s or 0.0
    sums = _device_sums(basis, device, None) or _Sums()
    parts = {
        "device": basis.seconds("compute", "memory"), "host": basis.seconds("host"),
        "input": basis.seconds("input"), "transfer": basis.seconds("transfer"),
        "communication": basis.seconds("communication"), "fixed": basis.seconds(*FIXED),
    }  # fmt: skip
    busy = parts["device"] / step_s if step_s else 0.0
    step = Range(step_s, step_s, step_s)
    return Projected(step, _bottleneck(parts, sums), busy, parts, sums.update_share)


def device_s(
    basis: Basis, operators: list[Operator], device: Accelerator, precision: str | None
) -> float | None:
    """Device time of these operators there; None when the precision or a figure is missing."""
    sums = _device_sums(replace(basis, operators=operators), device, precision)
    return sums.total if sums else None


def _device_sums(basis: Basis, device: Accelerator, precision: str | None) -> _Sums | None:
    """Device time of a step on the target; None when the target cannot run its precision."""
    model, sums = curves.parameters(), _Sums()
    there: dict[str, curves.Target | None] = {}
    here: dict[str, curves.Target | None] = {}
    for op in basis.operators:
        if op.kind == "view":
            continue  # takes no time anywhere, whatever its numbers are
        asked = converted(op, precision)
        wanted = _runs_in(asked, device)
        if wanted not in there:
            there[wanted] = curves.target(device, wanted, model)
        target = there[wanted]
        if target is None:
            return None
        own = _runs_in(op, basis.source)
        if own not in here:
            here[own] = curves.target(basis.source, own, model) if basis.source else None
        if op.flops is None or op.bytes is None:
            spent = (op.time_s or 0.0) * _unknown_ratio(basis, target)
            sums.total, sums.memory = sums.total + spent, sums.memory + spent
            continue
        _add(sums, asked, target, _keeps(op, here[own], model))
    return sums


def _runs_in(op: Operator, device: Accelerator | None) -> str:
    """The precision of the units an operator uses. PyTorch runs fp32 convolutions as TF32 where
    there is TF32, and fp32 matrix products not, unless the job says otherwise. Element-wise work
    in fp64 goes by its bytes: where there are no fp64 units, software does it."""
    dtype = op.dtype if op.dtype in curves.FALLBACK else "fp32"
    if dtype == "fp64" and op.kind in STREAMS and device and "fp64" not in device.flops:
        return "fp32"
    if dtype == "fp32" and op.kind in CONVOLUTIONS:
        return "tf32"
    return dtype or "fp32"


def why_not(basis: Basis, device: Accelerator, precision: str | None) -> str:
    """Why `project` gave nothing for the device."""
    if not basis.operators:
        return "this run has no captured operators"
    if not basis.step_s:
        return "this run has no steady steps"
    if device.bytes_per_s is None:
        return "its memory bandwidth is not known"
    lacking = sorted({
        wanted for op in basis.operators if op.kind != "view"
        for wanted in [_runs_in(converted(op, precision), device)]
        if curves.usable_precision(device, wanted) is None
    })  # fmt: skip
    if lacking == ["fp64"]:
        return "it has no fp64 for the job's products in fp64"
    return f"no rate is known for {', '.join(lacking)} there"


def converted(op: Operator, precision: str | None) -> Operator:
    """The operator as it would run in another precision; integers and fp64 stay."""
    if precision is None or op.dtype not in SIZES or op.dtype in ("fp64", "int8"):
        return op
    if op.phase == "optimizer":
        return op  # master weights stay fp32
    moved = op.bytes
    held = max(2, SIZES[precision]) if precision != "fp8" else 2  # activations stay at 16 bits
    if moved is not None:
        moved *= held / op.size
    dtype = precision if op.kind not in STREAMS else ("bf16" if held == 2 else precision)
    return msgspec.structs.replace(op, dtype=dtype, bytes=moved)


def _keeps(op: Operator, source: curves.Target | None, model: curves.Parameters) -> float:
    """Measured time over the model's on the source: the efficiency that this operator keeps."""
    if source is None or not op.time_s or op.kind == "view":
        return 1.0
    modelled = curves.seconds(op, source, curves.sustained(source, model), model)
    if modelled <= 0.0:
        return 1.0
    return float(min(MOST_OFF, max(1.0 / MOST_OFF, op.time_s / modelled)))


def _add(sums: _Sums, op: Operator, target: curves.Target, keeps: float) -> None:
    model = curves.parameters()
    rate = curves.sustained(target, model)
    spent = keeps * curves.seconds(op, target, rate, model)
    sums.total += spent
    if op.phase == "optimizer":
        sums.update += spent
    speed = target.bytes_per_s * model["efficiency"]["bandwidth"]
    if op.kind not in STREAMS and (op.flops or 0.0) / rate > (op.bytes or 0.0) / speed:
        sums.compute += spent
    else:
        sums.memory += spent


def _unknown_ratio(basis: Basis, target: curves.Target) -> float:
    """An operator without FLOPs and bytes: like memory traffic, the part that shrinks least."""
    source = basis.source.bytes_per_s if basis.source else None
    return source / target.bytes_per_s if source else 1.0


def _work_s(basis: Basis, device: Accelerator, sums: _Sums, model: curves.Parameters) -> float:
    """Device and host side by side; on the run's own device this gives what was measured."""
    dispatch_s = model["overhead"]["dispatch_s"] * _launches(basis.operators)
    python_s = basis.host_s or 0.0
    if basis.on_cpu or basis.source is None:
        return join(sums.total, dispatch_s + python_s)
    device_s = basis.seconds("compute", "memory")
    measured = device_s + basis.seconds("host")
    captured = sum(op.time_s or 0.0 for op in basis.operators)
    # The capture and the steady steps are different steps: the steady ones count.
    scale = min(2.0, max(0.5, device_s / captured)) if captured and device_s else 1.0
    sums.total, sums.compute, sums.memory = (
        x * scale for x in (sums.total, sums.compute, sums.memory)
    )
    # What shows of the host beside this device; a faster one shows more of it, a slower less.
    host_s = max(dispatch_s, beside(measured, device_s))
    return join(sums.total, host_s) * (measured / (join(device_s, host_s) or 1.0))


def _launches(operators: Iterable[Operator]) -> int:
    return sum(op.calls for op in operators if op.kind != "view")


def _exchange_s(basis: Basis, device: Accelerator, count: int, precision: str | None) -> float:
    """Exposed gradient exchange; measured when the run had one and its count stays."""
    if count < 2 or not basis.trains:
        return 0.0
    measured = basis.seconds("communication")
    if basis.source and count == basis.count and measured > 0:
        link = curves.parameters()["link"]
        return measured * (
            curves.link_bytes_per_s(basis.source, link) / curves.link_bytes_per_s(device, link)
        )
    held = basis.parameter_bytes or (basis.parameters or 0) * 4
    return curves.exchange_seconds(device, float(held), count)


def _spread(basis: Basis, device: Accelerator, model: curves.Parameters) -> float:
    """Logarithmic standard deviation of the projected device and host work."""
    given = model["spread"]
    if basis.on_cpu or basis.source is None:
        parts = [given["from_cpu"]]
    else:
        parts = [given["transfer"]]
        if basis.source.architecture.split()[0] != device.architecture.split()[0]:
            parts.append(given["generation"])
    if device.vendor != "NVIDIA":
        parts.append(given["vendor"])  # the curves were fitted on NVIDIA's
    parts.append(given["uncovered"] * (1.0 - basis.covered))
    return math.sqrt(sum(p * p for p in parts))


def together_s(basis: Basis, parts: dict[str, float], count: int, factor: float = 1.0) -> float:
    """The step of these parts when the work takes `factor` times what is expected."""
    work = (parts["device"] + parts["host"]) * factor
    path = work + parts["transfer"] + parts["communication"] + parts["fixed"]
    fed = count / basis.count  # one host's workers feed all devices
    if basis.in_process:
        return path + parts["input"]
    if basis.shares.get("input", 0.0) < STARVED:
        return max(path + parts["input"], (basis.loader_s or 0.0) * fed)
    if factor < 1.0:
        return path + parts["input"]
    # Workers that made the device wait work all the time: a faster device only waits longer.
    return max(path, (basis.step_s or 0.0) * fed)


def _bottleneck(parts: dict[str, float], sums: _Sums) -> str:
    """The largest part, in the report's words."""
    largest = max(
        ("compute-bound", parts["device"] if sums.compute >= sums.memory else 0.0),
        ("memory-bound", parts["device"] if sums.compute < sums.memory else 0.0),
        ("host-bound", parts["host"]),
        ("input-bound", parts["input"] + parts.get("wait", 0.0)),
        ("transfer-bound", parts["transfer"]),
        ("communication-bound", parts["communication"]),
        ("checkpoint-bound", parts["fixed"]),
        key=lambda pair: pair[1],
    )
    return largest[0]
