"""A trace that another tool's run left behind (torch.profiler: CUDA, ROCm or CPU) as a run's rows.

Steps are the ProfilerStep marks. On a device each step is divided by what the device did in it:
kernels, else collectives, else copies, else idle. The wait for data stands in full: the shares
count it up to the device's idle time, which is what a step without it would save.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..accelerators.catalogue import Accelerator, by_nvml_name, catalogue
from . import saved
from .chrome import Event, Trace, read_trace
from .intervals import Spans, intersect, length, subtract, union
from .kineto import KERNEL_CATEGORIES, RUNTIME_CATEGORIES, analyse, op_rows

COPIES = {"gpu_memcpy", "Memcpy"}
COLLECTIVE = re.compile(r"nccl|rccl|oneccl|\bgloo:", re.IGNORECASE)  # names of such kernels
SAMPLE_US = 10_000.0  # one device sample for each of these, so that means are by time
MOST_SAMPLES = 10_000  # of a step, however long the file says it was


@dataclass
class Imported:
    """Rows by table, and what a reader of the report should know."""

    path: Path
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    started_ns: int = 0  # UTC; 0: not known
    ended_ns: int = 0
    steps: int = 0
    rank: int | None = None  # in a job of several processes
    world: int | None = None
    pid: int = 1
    device: int | None = None  # as the job numbered it

    def add(self, table: str, *rows: dict[str, Any]) -> None:
        self.rows.setdefault(table, []).extend(rows)

    def finish(self) -> None:
        """Adds the row of the process, with all that is noted by now."""
        (process,) = self.rows.get("process") or [_process(self)]
        facts = [{"k": "note", "text": text} for text in self.notes]
        self.rows["process"] = [process | {"facts": json.dumps(facts + process["facts"])}]


def import_trace(path: Path, known: Accelerator | None = None) -> Imported:
    """`known`: what the device is, whatever the trace says. Raises BadTrace, OSError."""
    trace = read_trace(path)
    found = Imported(path)
    found.notes += _reading_notes(trace)
    found.rank, found.world = _place(trace, path)
    if not trace.events:
        found.notes.append('the trace holds no events with a duration (of phase "X")')
        return found
    window = analyse(trace)
    found.started_ns = _ns(trace, min(e.ts for e in trace.events))
    found.ended_ns = _ns(trace, max(e.ts + e.dur for e in trace.events))
    kernels = _kernels_by_device(trace.events)
    found.device = max(kernels, key=lambda d: length(kernels[d].any)) if kernels else None
    marks = _marks(trace.events)
    if not marks:
        found.notes.append("no step marks (ProfilerStep) were found in the trace")
    elif trace.truncated or trace.limited:
        marks = _whole(found, trace, marks, kernels)
    found.steps = len(marks)
    found.pid = _pid(marks or trace.events)
    loads = [e for e in trace.events if e.name.startswith("enumerate(DataLoader)")]
    work = kernels[found.device] if found.device is not None else None
    for number, mark in zip(_numbers(marks), marks, strict=True):
        _add_step(found, trace, mark, number, loads=loads, work=work)
    if work is None:
        found.notes.append("no device activity in the trace")
    else:
        _add_device(found, trace, known)
    found.add("op", *op_rows(window, capture=0, pid=found.pid, steps=max(1, len(marks)),
                             t_ns=found.started_ns))  # fmt: skip
    found.add("event", *saved.rows(window, pid=found.pid, steps=max(1, len(marks)),
                                   t_ns=found.started_ns))  # fmt: skip
    _add_loader(found, trace, marks, loads)
    return found


def _reading_notes(trace: Trace) -> list[str]:
    notes = []
    if trace.truncated:
        notes.append("the trace was cut off; what came before is used")
    if trace.limited:
        notes.append(trace.limited)
    if trace.skipped:
        notes.append(f"{trace.skipped} events of the trace could not be read")
    return notes


def _place(trace: Trace, path: Path) -> tuple[int | None, int | None]:
    """(rank, ranks in all) as the trace says; older ones say it in the file's name alone."""
    rank, world = (trace.distributed.get(key) for key in ("rank", "world_size"))
    if not isinstance(rank, int) or isinstance(rank, bool):
        named = re.search(r"rank[-_]?(\d{1,6})(?!\d)", path.name, re.IGNORECASE)
        rank = int(named[1]) if named else None
    return rank, world if isinstance(world, int) and not isinstance(world, bool) else None


def _ns(trace: Trace, ts_us: float) -> int:
    """UTC ns; traces without a base time carry it in the time stamps."""
    return trace.base_ns + int(ts_us * 1000)


def _pid(events: list[Event]) -> int:
    return next((e.pid for e in events if isinstance(e.pid, int) and 0 < e.pid < 1 << 31), 1)


def _marks(events: list[Event]) -> list[Event]:
    """Steps on the host; the same marks on the device's rows are not steps again."""
    found = [
        e for e in events
        if e.name.startswith("ProfilerStep") and e.cat in ("user_annotation", "Operator", "cpu_op")
    ]  # fmt: skip
    return sorted(found, key=lambda e: e.ts)


def _whole(
    found: Imported, trace: Trace, marks: list[Event], kernels: dict[int, DeviceWork]
) -> list[Event]:  # fmt: skip
    """Of a file that ends too early, the steps whose work on the device is in it.

    Kernels stand behind what the host did: without them every step looks idle.
    """
    launches = any(e.cat in RUNTIME_CATEGORIES for e in trace.events)
    if not kernels and not launches and not trace.devices:
        return marks
    seen = max((end for work in kernels.values() for _, end in work.any[-1:]), default=0.0)
    kept = [e for e in marks if e.ts + e.dur <= seen]
    if len(kept) < len(marks):
        lost = len(marks) - len(kept)
        found.notes.insert(0, f"the file ends before what the device did in {lost} of "
                              f"{len(marks)} steps, which are left out")  # fmt: skip
    return kept


def _numbers(marks: list[Event]) -> list[int]:
    """The steps' own numbers, which are the same in the traces of all ranks; else their order."""
    told = [e.name.rpartition("#")[2] for e in marks]
    if all(text.isdecimal() and len(text) < 18 for text in told) and len(set(told)) == len(told):
        return [int(text) for text in told]
    return list(range(len(marks)))


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
        return COLLECTIVE.search(event.name) is not None

    kernels = spans([e for e in events if not is_copy(e) and not is_collective(e)])
    collectives = subtract(spans([e for e in events if is_collective(e)]), kernels)
    copies = subtract(spans([e for e in events if is_copy(e)]), union([*kernels, *collectives]))
    return DeviceWork(kernels, collectives, copies)


def _add_step(
    found: Imported, trace: Trace, mark: Event, number: int, *, loads: list[Event],
    work: DeviceWork | None,
) -> None:  # fmt: skip
    span = [(mark.ts, mark.ts + mark.dur)]
    loader = intersect(span, union((e.ts, e.ts + e.dur) for e in loads if e.tid == mark.tid))
    row: dict[str, Any] = {
        "pid": found.pid, "rank": found.rank or 0, "step": number, "t_ns": _ns(trace, mark.ts),
        "duration_ns": int(mark.dur * 1000), "kind": "train", "captured": False,
        "first_of_epoch": False, "micro_batches": 1,
        "data_wait_ns": int(length(loader) * 1000),
    }  # fmt: skip
    if work is not None:
        kernels = intersect(span, work.kernels)
        others = {"collective": work.collectives, "h2d": work.copies}
        row |= {f"{k}_ns": int(length(intersect(span, v)) * 1000) for k, v in others.items()}
        row["forward_ns"] = int(length(kernels) * 1000)
        busy = length(kernels) / mark.dur if mark.dur else None
        every = max(SAMPLE_US, mark.dur / MOST_SAMPLES)
        for i in range(max(1, int(mark.dur / every))):
            found.add("device_sample", {
                "t_ns": _ns(trace, mark.ts + min(i * every, mark.dur)),
                "device": found.device, "busy_share": busy,
            })  # fmt: skip
    found.add("step", row)


def _add_device(found: Imported, trace: Trace, given: Accelerator | None) -> None:
    listed = next((d for d in trace.devices if d.get("id") == found.device), {})
    memory = listed.get("totalGlobalMem")
    row, notes = device_row(
        found.device or 0, str(listed.get("name") or (given.name if given else "GPU")),
        memory if isinstance(memory, int) else None, given,
    )  # fmt: skip
    found.notes += notes
    found.add("device", row)


def device_row(
    number: int, name: str, memory: int | None, given: Accelerator | None
) -> tuple[dict[str, Any], list[str]]:
    """(row of table `device`, notes) of a device that is known by name alone."""
    known = given or by_nvml_name(name) or _alike(name, memory)
    details: dict[str, Any] = {}
    notes: list[str] = []
    if known is not None and known.bytes_per_s:
        details["ceilings"] = {
            "flops": known.flops, "bytes_per_s": known.bytes_per_s, "source": "datasheet",
        }  # fmt: skip
        if known.name not in name:
            notes.append(f"{name} is judged by the figures of {known.name}")
    else:
        notes.append(f"{name} is not in the catalogue: compute and memory are not told apart "
                     "(--device NAME says what it is)")  # fmt: skip
    row = {
        "device": number, "name": name, "kind": "gpu", "catalogue": known.id if known else None,
        "memory_bytes": memory, "details": json.dumps(details),
    }  # fmt: skip
    return row, notes


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


def _add_loader(
    found: Imported, trace: Trace, marks: list[Event], loads: list[Event]
) -> None:  # fmt: skip
    single = any("_SingleProcess" in e.name for e in loads)
    facts: list[dict[str, Any]] = []
    if loads:
        facts.append({"k": "loader", "id": 1, "num_workers": 0 if single else None})
    if single:
        threads = {e.tid for e in marks}
        found.add("worker_batch", *(
            {"t_ns": _ns(trace, e.ts), "pid": found.pid, "worker": -1,
             "fetch_ns": int(e.dur * 1000)}
            for e in loads if not threads or e.tid in threads
        ))  # fmt: skip
    found.add("process", _process(found) | {"facts": facts})


def _process(found: Imported) -> dict[str, Any]:
    return {
        "process": f"{found.pid}-{found.rank or 0}", "pid": found.pid,
        "role": "main" if found.rank is None else "rank", "rank": found.rank,
        "hooks": "loaded" if found.steps else None, "spans": 0, "spans_lost": 0,
        "started_ns": found.started_ns or None, "facts": [],
    }  # fmt: skip
