"""A trace that another tool's run left behind (torch.profiler: CUDA, ROCm or CPU) as a run's rows.

Steps are the ProfilerStep marks. On a device each step is divided by what the device did in it:
kernels, else collectives, else copies, else idle. The wait for data stands in full: the shares
count it up to the device's idle time, which is what a step without it would save.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..accelerators.catalogue import Accelerator, by_nvml_name, catalogue
from .chrome import Event, Trace, read_trace
from .intervals import Spans, intersect, length, subtract, union
from .kineto import KERNEL_CATEGORIES, analyse, op_rows

COPIES = {"gpu_memcpy", "Memcpy"}
SAMPLE_US = 10_000.0  # one device sample for each of these, so that means are by time


@dataclass
class Imported:
    """Rows by table, and what a reader of the report should know."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    started_ns: int = 0
    ended_ns: int = 0
    steps: int = 0

    def add(self, table: str, *rows: dict[str, Any]) -> None:
        self.rows.setdefault(table, []).extend(rows)


def import_trace(path: Path) -> Imported:
    """Raises BadTrace when the file is none."""
    trace = read_trace(path)
    found = Imported()
    if trace.truncated:
        found.notes.append("the trace was cut off; what came before is used")
    if not trace.events:
        found.notes.append("the trace holds no events")
        return found
    window = analyse(trace)
    found.started_ns = _ns(trace, min(e.ts for e in trace.events))
    found.ended_ns = _ns(trace, max(e.ts + e.dur for e in trace.events))
    kernels = _kernels_by_device(trace.events)
    device = max(kernels, key=lambda d: length(kernels[d].any)) if kernels else None
    marks = _marks(trace.events)
    found.steps = len(marks)
    if not marks:
        found.notes.append("no step marks (ProfilerStep) were found in the trace")
    pid = _pid(marks or trace.events)
    rank = trace.distributed.get("rank")
    rank = rank if isinstance(rank, int) else 0
    work = kernels[device] if device is not None else None
    for number, mark in enumerate(marks):
        _add_step(found, trace, mark, number, pid=pid, rank=rank, work=work)
    if work is None:
        found.notes.append("no device activity in the trace")
    else:
        _add_device(found, trace, device or 0)
    found.add("op", *op_rows(window, capture=0, pid=pid, steps=max(1, len(marks)),
                             t_ns=found.started_ns))  # fmt: skip
    _add_process(found, trace, marks, pid, rank)
    return found


def _ns(trace: Trace, ts_us: float) -> int:
    """UTC ns; traces without a base time carry it in the time stamps."""
    return trace.base_ns + int(ts_us * 1000)


def _pid(events: list[Event]) -> int:
    return next((e.pid for e in events if isinstance(e.pid, int)), 1)


def _marks(events: list[Event]) -> list[Event]:
    """Steps on the host; the same marks on the device's rows are not steps again."""
    found = [
        e for e in events
        if e.name.startswith("ProfilerStep") and e.cat in ("user_annotation", "Operator", "cpu_op")
    ]  # fmt: skip
    return sorted(found, key=lambda e: e.ts)


@dataclass
class DeviceWork:
    """Disjoint: kernels first, then collectives, then copies, as far as nothing before ran."""

    kernels: Spans
    collectives: Spans
    copies: Spans

    @property
    def any(self) -> Spans:
        return union([*self.kernels, *self.collectives, *self.copies])


def _kernels_by_device(events: list[Event]) -> dict[int, DeviceWork]:
    by_device: dict[int, list[Event]] = {}
    for event in events:
        if event.cat in KERNEL_CATEGORIES:
            device = event.args.device if event.args else None
            by_device.setdefault(device if isinstance(device, int) else 0, []).append(event)
    return {device: _device_work(found) for device, found in by_device.items()}


def _device_work(events: list[Event]) -> DeviceWork:
    def spans(wanted: list[Event]) -> Spans:
        return union((e.ts, e.ts + e.dur) for e in wanted)

    def is_copy(event: Event) -> bool:
        return event.cat in COPIES and "DtoD" not in event.name

    def is_collective(event: Event) -> bool:
        name = event.name.lower()
        return "nccl" in name or "rccl" in name

    kernels = spans([e for e in events if not is_copy(e) and not is_collective(e)])
    collectives = subtract(spans([e for e in events if is_collective(e)]), kernels)
    copies = subtract(spans([e for e in events if is_copy(e)]), union([*kernels, *collectives]))
    return DeviceWork(kernels, collectives, copies)


def _add_step(
    found: Imported, trace: Trace, mark: Event, number: int, *, pid: int, rank: int,
    work: DeviceWork | None,
) -> None:  # fmt: skip
    span = [(mark.ts, mark.ts + mark.dur)]
    loader = intersect(span, union(
        (e.ts, e.ts + e.dur) for e in trace.events
        if e.name.startswith("enumerate(DataLoader)") and e.tid == mark.tid
    ))  # fmt: skip
    row: dict[str, Any] = {
        "pid": pid, "rank": rank, "step": number, "t_ns": _ns(trace, mark.ts),
        "duration_ns": int(mark.dur * 1000), "kind": "train", "captured": False,
        "first_of_epoch": False, "micro_batches": 1,
    }  # fmt: skip
    if work is None:
        row |= {"data_wait_ns": int(length(loader) * 1000)}
    else:
        kernels = intersect(span, work.kernels)
        others = {"collective": intersect(span, work.collectives), "h2d":
                  intersect(span, work.copies)}  # fmt: skip
        row |= {f"{k}_ns": int(length(v) * 1000) for k, v in others.items()}
        row |= {
            "data_wait_ns": int(length(loader) * 1000),
            "forward_ns": int(length(kernels) * 1000),
        }
        busy = length(kernels) / mark.dur if mark.dur else None
        for i in range(max(1, int(mark.dur / SAMPLE_US))):
            found.add("device_sample", {
                "t_ns": _ns(trace, mark.ts + min(i * SAMPLE_US, mark.dur)), "device": 0,
                "busy_share": busy,
            })  # fmt: skip
    found.add("step", row)


def _add_device(found: Imported, trace: Trace, index: int) -> None:
    listed = next((d for d in trace.devices if d.get("id") == index), {})
    name = str(listed.get("name") or "GPU")
    memory = listed.get("totalGlobalMem")
    known = by_nvml_name(name) or _alike(name, memory if isinstance(memory, int) else None)
    details: dict[str, Any] = {}
    if known is not None and known.bytes_per_s:
        details["ceilings"] = {
            "flops": known.flops, "bytes_per_s": known.bytes_per_s, "source": "datasheet",
        }  # fmt: skip
        if known.name not in name:
            found.notes.append(f"{name} is judged by the figures of {known.name}")
    else:
        found.notes.append(f"{name} is not in the catalogue: compute and memory are not told apart")
    found.add("device", {
        "device": 0, "name": name, "kind": "gpu", "catalogue": known.id if known else None,
        "memory_bytes": memory if isinstance(memory, int) else None, "details": json.dumps(details),
    })  # fmt: skip


def _alike(name: str, memory: int | None) -> Accelerator | None:
    """A sibling of a card that the catalogue does not list: same model, memory, smallest rate."""
    words = {w.lower() for w in name.replace("-", " ").split() if any(c.isdigit() for c in w)}
    near = [
        item for item in catalogue().values()
        if item.id.split("-")[0] in words
        and (memory is None or item.memory_bytes is None
             or abs(item.memory_bytes - memory) < 0.2 * item.memory_bytes)
    ]  # fmt: skip
    return min(near, key=lambda item: item.flops.get("fp32", 0.0)) if near else None


def _add_process(
    found: Imported, trace: Trace, marks: list[Event], pid: int, rank: int
) -> None:  # fmt: skip
    loads = [e for e in trace.events if e.name.startswith("enumerate(DataLoader)")]
    facts: list[dict[str, Any]] = [{"k": "note", "text": text} for text in found.notes]
    single = any("_SingleProcess" in e.name for e in loads)
    if loads:
        facts.append({"k": "loader", "id": 1, "num_workers": 0 if single else None})
    if single:
        threads = {e.tid for e in marks}
        found.add("worker_batch", *(
            {"t_ns": _ns(trace, e.ts), "pid": pid, "worker": -1, "fetch_ns": int(e.dur * 1000)}
            for e in loads if not threads or e.tid in threads
        ))  # fmt: skip
    found.add("process", {
        "process": f"{pid}-trace", "pid": pid, "role": "rank" if rank else "main", "rank": rank,
        "hooks": "loaded" if marks else None, "spans": 0, "spans_lost": 0,
        "started_ns": found.started_ns, "facts": json.dumps(facts),
    })  # fmt: skip
