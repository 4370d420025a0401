"""Splits captured work into compute, memory, latency and Python by this machine's ceilings.

For an operator with F FLOPs, B bytes and measured time t the floor is max(F / P, B / W). It is
memory-limited when B / W is the larger. What a short call takes beyond its floor is latency:
dispatch, launch, waking threads. P is the matmul rate for matrix products and the measured rate
of the function for element-wise ones (an exp or a random number is far from one FLOP).
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..traces.flops import work
from ..traces.kernels import by_name
from ..traces.kineto import COPY_PHASE, FUSED_ROW, GAP_ROW, LOADER_ROW
from .model import Ceilings, Copies, OpRow, Split

# Times of one call. Waking the worker threads of an OpenMP region costs 5-20 us, dispatch with
# autograd 1-5 us: below SHORT_S whatever is above the floor is latency.
SHORT_S = 25e-6
# Up to here a call is latency-limited when its floor is under a tenth of its time.
MEDIUM_S = 100e-6
LATENCY_FLOOR = 0.1
# A call this far above its floor is not slowed by memory or arithmetic at all: its threads waited
# (for a core, a lock). Up to STALLED_S it is latency, beyond nobody knows what it did.
STALLED_FLOOR, STALLED_S = 0.02, 1e-3
# Each recorded operator costs the capture at most this (measured 1-2 us with shapes)
CAPTURE_COST_S = 4e-6
# Time of a wrapper above this per call is the freeing of large tensors, not dispatch
FREEING_S = 200e-6
KEPT_OPS = 15
# How far ceilings may be off: ordinary scatter, and a calibration beside other work
OFF, FAR_OFF = 1.5, 4.0


@dataclass
class _Parts:
    compute: float = 0.0
    memory: float = 0.0
    latency: float = 0.0
    unknown: float = 0.0
    python: float = 0.0

    def total(self) -> float:
        return self.compute + self.memory + self.latency + self.unknown + self.python


@dataclass(frozen=True)
class Judged:
    """One row of `op`, times in s over the whole capture."""

    row: OpRow
    compute: float
    memory: float
    latency: float
    unknown: float
    efficiency: float | None
    named: bool = False  # its work is not known, only its name

    @property
    def bound(self) -> str:
        parts = {
            "compute": self.compute, "memory": self.memory,
            "latency": self.latency, "unknown": self.unknown,
        }  # fmt: skip
        return max(parts, key=lambda k: parts[k])


def judge(row: OpRow, ceilings: Ceilings, trains: bool = False) -> Judged:
    """Books the time of one operator and shape; `trains`: of a step with a backward."""
    spent = row.time_ns / 1e9
    each = spent / max(1, row.calls)
    if row.flops == 0 and row.bytes == 0:
        if row.name.startswith("autograd::engine::") and each > FREEING_S:
            return Judged(row, 0.0, spent, 0.0, 0.0, None)
        return Judged(row, 0.0, 0.0, spent, 0.0, None)
    if row.flops is None or row.bytes is None:
        return _unsized(row, spent, each, trains)
    calls = max(1, row.calls)
    kind = _kind(row)
    compute_floor = row.flops / calls / _rate(kind, row.dtype, ceilings)
    memory_floor = row.bytes / calls / ceilings.bytes_per_s
    floor = max(compute_floor, memory_floor)
    if each > STALLED_S and floor < STALLED_FLOOR * each:
        return Judged(row, 0.0, 0.0, 0.0, spent, floor / each)
    latency = _latency(each, floor)
    rest = (each - latency) * calls
    efficiency = min(1.0, floor / each) if each > 0 else None
    by_compute = compute_floor >= memory_floor
    return Judged(
        row, rest if by_compute else 0.0, 0.0 if by_compute else rest,
        latency * calls, 0.0, efficiency,
    )  # fmt: skip


def _unsized(row: OpRow, spent: float, each: float, trains: bool) -> Judged:
    """Work that is not known (no shapes, a library's own operator) is told by the name.

    What passes over memory is limited by it. A matrix product is arithmetic in training, where
    batches are large; one of a decoding step is not.
    """
    if each <= SHORT_S:
        return Judged(row, 0.0, 0.0, spent, 0.0, None)
    if row.flops == 0:  # pure data movement of unknown size is memory by nature
        return Judged(row, 0.0, spent, 0.0, 0.0, None)
    kind = by_name(row.name)
    if kind == "pass":
        return Judged(row, 0.0, spent, 0.0, 0.0, None, named=True)
    if kind == "product" and trains:
        return Judged(row, spent, 0.0, 0.0, 0.0, None, named=True)
    return Judged(row, 0.0, 0.0, 0.0, spent, None)


def _latency(each: float, floor: float) -> float:
    """Seconds of one call that are dispatch and launch."""
    if each <= SHORT_S:
        return max(0.0, each - floor)
    if each <= MEDIUM_S and floor < LATENCY_FLOOR * each:
        return each
    return each if floor < STALLED_FLOOR * each else 0.0


def _kind(row: OpRow) -> str:
    """The ceiling of an operator; the tables are asked by name, shapes do not matter for it."""
    try:
        dims = json.loads(row.shapes) if row.shapes else []
    except ValueError:
        dims = []
    types = ["float" if d else "" for d in dims]
    found = work(row.name, dims, types, [], None)
    return found.kind if found else "gemm"


def _rate(kind: str, dtype: str | None, ceilings: Ceilings) -> float:
    if kind in ceilings.vector_flops:
        return ceilings.vector_flops[kind]
    fp32 = ceilings.flops.get("fp32", 1e12)
    if kind == "gemm":
        return ceilings.flops.get(dtype or "fp32", fp32)
    return fp32 / 8  # no measured rate: one FLOP an element without fused multiply-add


def split(rows: Sequence[OpRow], ceilings: Ceilings, steady_work_s: float) -> Split | None:
    """How the work of a steady step divides; `steady_work_s` is its mean duration.

    What the captured window takes beyond a steady step's work comes off calls that stalled first
    (their threads waited for a core, in this one step). Then it is the capture's own cost while it
    can be (a few us an operator) and comes off latency and Python. Beyond that it comes off the
    time without operators, which holds what is no work (a checkpoint, the making of a batch).
    What is left of the difference is chance and scales all.
    """
    if not rows or steady_work_s <= 0:
        return None
    # Old traces have no phases of backward, but its operators
    trains = any(r.phase == "backward" or "_backward" in r.name for r in rows)
    judged = [
        judge(r, ceilings, trains) for r in rows
        if r.name not in (GAP_ROW, LOADER_ROW) and r.phase != COPY_PHASE
    ]  # fmt: skip
    if not judged:
        return None
    steps = sum({r.capture: max(1, r.steps) for r in rows}.values())
    python = sum(r.time_ns for r in rows if r.name == GAP_ROW) / 1e9
    stalled = sum(j.unknown for j in judged if j.efficiency is not None)
    parts = _undisturbed(_sum(judged, python), stalled, steady_work_s * steps)
    calls = sum(j.row.calls for j in judged)
    corrected, overhead = _correct(parts, steady_work_s * steps, calls * CAPTURE_COST_S)
    total = corrected.total()
    if total <= 0:
        return None
    known = sum(
        j.row.time_ns for j in judged
        if j.row.name != FUSED_ROW and not j.named
        and (j.unknown == 0 or j.efficiency is not None)
    )  # fmt: skip
    spent = sum(j.row.time_ns for j in judged)
    # Views and wrappers are part of the price of an operator, not operators that do anything
    real = sum(j.row.calls for j in judged if j.row.flops != 0 or j.row.bytes != 0)
    return Split(
        compute=corrected.compute / total, memory=corrected.memory / total,
        latency=corrected.latency / total, python=corrected.python / total,
        unknown=corrected.unknown / total, covered=known / spent if spent else 0.0,
        stable=_stable(judged, corrected, ceilings, OFF, trains),
        sturdy=_stable(judged, corrected, ceilings, FAR_OFF, trains), overhead=overhead,
        flops=_flops(judged, ceilings, steps), ops=_spots(judged),
        dtype=_main_dtype(judged), calls_per_step=real / steps,
        mean_op_us=spent / max(1, real) / 1e3, memory_ops=_families(judged),
        stalled=stalled * 1e9 / spent if spent else 0.0,
        named=sum(j.row.time_ns for j in judged if j.named) / spent if spent else 0.0,
    )  # fmt: skip


def _sum(judged: Iterable[Judged], python: float) -> _Parts:
    parts = _Parts(python=python)
    for j in judged:
        parts.compute += j.compute
        parts.memory += j.memory
        parts.latency += j.latency
        parts.unknown += j.unknown
    return parts


def _undisturbed(parts: _Parts, stalled_s: float, steady_s: float) -> _Parts:
    """Takes off the stalls that the captured step had and a steady step has not."""
    excess = max(0.0, parts.total() - steady_s)
    return replace(parts, unknown=parts.unknown - min(stalled_s, parts.unknown, excess))


def _correct(parts: _Parts, steady_s: float, most_overhead_s: float) -> tuple[_Parts, float]:
    """Takes the capture's own cost off latency and Python, in their proportion."""
    total, host = parts.total(), parts.latency + parts.python
    excess = max(0.0, min(total - steady_s, most_overhead_s, 0.95 * host))
    if host <= 0 or excess <= 0:
        return parts, 0.0
    keep = 1.0 - excess / host
    python = parts.python * keep
    foreign = min(python, total - excess - steady_s)
    fixed = replace(parts, latency=parts.latency * keep, python=python - max(0.0, foreign))
    return fixed, excess / total


def _stable(
    judged: Sequence[Judged], parts: _Parts, ceilings: Ceilings, factor: float, trains: bool
) -> bool:
    """Whether the largest part stays the largest with either ceiling off by this factor."""
    named = {"compute": parts.compute, "memory": parts.memory, "host": parts.latency + parts.python}
    largest = max(named, key=lambda k: named[k])
    latency = sum(j.latency for j in judged)
    keep = parts.latency / latency if latency > 0 else 1.0  # after the capture's own cost
    for flops, moved in ((factor, 1.0), (1 / factor, 1.0), (1.0, factor), (1.0, 1 / factor)):
        other = replace(
            ceilings, flops={k: v * flops for k, v in ceilings.flops.items()},
            vector_flops={k: v * flops for k, v in ceilings.vector_flops.items()},
            bytes_per_s=ceilings.bytes_per_s * moved,
        )  # fmt: skip
        again = _sum((judge(j.row, other, trains) for j in judged), 0.0)
        scaled = {
            "compute": again.compute, "memory": again.memory,
            "host": parts.python + again.latency * keep,
        }  # fmt: skip
        if max(scaled, key=lambda k: scaled[k]) != largest:
            return False
    return True


def _spots(judged: Sequence[Judged]) -> tuple[dict[str, Any], ...]:
    """The operators by time, shapes put together; shares of the operators' time."""
    total = sum(j.row.time_ns for j in judged) or 1
    by_name: dict[str, list[Judged]] = defaultdict(list)
    for j in judged:
        by_name[j.row.name].append(j)
    spots: list[dict[str, Any]] = []
    for name, group in by_name.items():
        spent = sum(j.row.time_ns for j in group)
        weighted = [(j.efficiency, j.row.time_ns) for j in group if j.efficiency is not None]
        weight = sum(t for _, t in weighted)
        bounds: dict[str, int] = defaultdict(int)
        for j in group:
            bounds[j.bound] += j.row.time_ns
        spots.append({
            "name": name, "share": spent / total, "bound": max(bounds, key=lambda k: bounds[k]),
            "efficiency": sum(e * t for e, t in weighted) / weight if weight else None,
        })  # fmt: skip
    spots.sort(key=lambda s: -float(s["share"]))
    return tuple(spots[:KEPT_OPS])


def _flops(judged: Sequence[Judged], ceilings: Ceilings, steps: int) -> dict[str, float]:
    """FLOPs of a step by precision. fp32 products above the fp32 peak were TF32 products."""
    sums: dict[str, float] = defaultdict(float)
    for j in judged:
        if j.row.flops:
            sums[_precision(j.row, ceilings)] += j.row.flops / steps
    return dict(sums)


def _precision(row: OpRow, ceilings: Ceilings) -> str:
    """Of a product, its own; all else is vector arithmetic, of which fp32 has a peak everywhere."""
    told = (row.dtype or "fp32") if _kind(row) == "gemm" else "fp32"
    fp32 = ceilings.flops.get("fp32")
    if told != "fp32" or "tf32" not in ceilings.flops or not fp32 or row.time_ns <= 0:
        return told
    return "tf32" if (row.flops or 0.0) / (row.time_ns / 1e9) > fp32 else told


def _main_dtype(judged: Sequence[Judged]) -> str | None:
    """The precision that most matmul time runs in."""
    times: dict[str, int] = defaultdict(int)
    for j in judged:
        if j.row.dtype and j.row.flops and _kind(j.row) == "gemm":
            times[j.row.dtype] += j.row.time_ns
    return max(times, key=lambda k: times[k]) if times else None


def _families(judged: Sequence[Judged]) -> dict[str, float]:
    """Memory time by family: matvec, elementwise, optimizer, embedding, other."""
    sums: dict[str, float] = defaultdict(float)
    for j in judged:
        if j.memory > 0:
            sums[_family(j.row)] += j.memory
    total = sum(sums.values())
    return {k: v / total for k, v in sums.items()} if total > 0 else {}


def _family(row: OpRow) -> str:
    if row.name == FUSED_ROW:
        return "fused"
    if row.phase == "optimizer":
        return "optimizer"
    if row.flops is None:
        return "embedding" if "embedding" in row.name else "elementwise"
    kind = _kind(row)
    if kind == "gemm":
        # 2 FLOPs an element of a weight and row: few rows a weight means the weight is the traffic
        per_byte = (row.flops or 0.0) / max(1.0, row.bytes or 1.0)
        return "matvec" if per_byte < 4 else "matmul"
    if kind == "move":
        return "embedding" if "embedding" in row.name else "elementwise"
    return "elementwise"


# Operators that read a device's value on the host: it waits until all queued work is done
_SYNCS = frozenset({
    "aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "aten::masked_select",
    "aten::_assert_async", "cudaStreamSynchronize", "cudaDeviceSynchronize",
})  # fmt: skip


def synchronisations(rows: Sequence[OpRow]) -> dict[str, float]:
    """Calls a step of operators that make the host wait for the device."""
    steps = sum({r.capture: max(1, r.steps) for r in rows}.values()) or 1
    found: dict[str, float] = defaultdict(float)
    for row in rows:
        if row.name in _SYNCS:
            found[row.name] += row.calls / steps
    return dict(found)


def copies(rows: Sequence[OpRow]) -> dict[str, Copies]:
    """Captured copies between host and device, by direction ("HtoD", "DtoH")."""
    steps = sum({r.capture: max(1, r.steps) for r in rows}.values()) or 1
    found: dict[str, list[OpRow]] = defaultdict(list)
    for row in rows:
        if row.phase == COPY_PHASE:
            found[row.name.partition(" ")[0]].append(row)
    return {
        direction: Copies(
            sum(r.calls for r in group) / steps, sum(r.bytes or 0.0 for r in group) / steps,
            sum(r.time_ns for r in group) / 1e9 / steps,
            sum(r.calls for r in group if "pageable" in r.name) / sum(r.calls for r in group),
        )
        for direction, group in found.items()
    }  # fmt: skip


def matrix_rows(rows: Sequence[OpRow]) -> float | None:
    """Rows of the activations in the captured matmuls, time-weighted median; 1 in decoding."""
    seen: list[tuple[float, int]] = []
    for row in rows:
        if row.phase != "forward" or not row.flops or _kind(row) != "gemm":
            continue
        try:
            dims = json.loads(row.shapes)
        except ValueError:
            continue
        first = dims[1] if "addmm" in row.name and len(dims) > 1 else dims[0] if dims else []
        if isinstance(first, list) and len(first) >= 2 and all(isinstance(d, int) for d in first):
            seen.append((float(math.prod(first[:-1])), row.time_ns))
    if not seen:
        return None
    seen.sort()
    half, sum_ns = sum(t for _, t in seen) / 2, 0
    for count, spent in seen:
        sum_ns += spent
        if sum_ns >= half:
            return count
    return seen[-1][0]
