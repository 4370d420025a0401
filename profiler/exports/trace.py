"""A run as a Chrome trace (JSON), for Perfetto or chrome://tracing: steps, phases, telemetry.

The durations of phases are measured; within a step they are laid one after the other in the usual
order, since the run keeps sums and no single spans. The trace says so itself.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from ...storage.reader import RunReader
from .chunks import rows_of
from .files import whole

Event = dict[str, Any]
MACHINE = 0  # the process of the trace that counters stand in
STEPS, VERDICT, EVENTS = 1, 1, 2  # threads
_PHASES = (
    "data_wait", "iterator", "h2d", "pre_forward", "forward", "backward", "collective",
    "optimizer", "checkpoint", "logging", "evaluation", "gap",
)  # fmt: skip
_NOTE = "durations of phases are measured, their order within a step is assumed"


def write(reader: RunReader, path: Path) -> int:
    """Writes the trace, compressed when the name ends in .gz; the number of events."""
    with whole(path) as draft:
        packed = path.suffix.lower() == ".gz"
        with (
            gzip.open(draft, "wt", encoding="utf-8")
            if packed
            else draft.open("w", encoding="utf-8") as out
        ):
            return _write(reader, out)


def _write(reader: RunReader, out: IO[str]) -> int:
    run = (reader.dicts("SELECT id, name, host, started_ns FROM run LIMIT 1") or [{}])[0]
    start = run.get("started_ns") or _first(reader) or 0
    about = {"tool": "accelprof", "run": run.get("id"), "name": run.get("name"),
             "host": run.get("host"), "started_unix_ns": start, "note": _NOTE}  # fmt: skip
    out.write(f'{{"displayTimeUnit":"ms","otherData":{_json(about)},"traceEvents":[\n')
    count = 0
    for event in events(reader, start):
        out.write((",\n" if count else "") + _json(event))
        count += 1
    out.write("\n]}\n")
    return count


def _json(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, default=str)
    return text.encode("utf-8", "replace").decode()


def _first(reader: RunReader) -> int | None:
    found = reader.rows(
        "SELECT least((SELECT min(t_ns) FROM step), (SELECT min(t_ns) FROM host_sample))"
    )
    return found[0][0] if found else None


def events(reader: RunReader, start: int) -> Iterator[Event]:
    """All events; times are microseconds since `start`, UTC ns."""
    yield _named("process_name", MACHINE, 0, "machine")
    yield _named("thread_name", MACHINE, VERDICT, "verdict")
    yield _named("thread_name", MACHINE, EVENTS, "events")
    yield from _processes(reader)
    yield from _steps(reader, start)
    yield from _batches(reader, start)
    yield from _windows(reader, start)
    yield from _moments(reader, start)
    for table, columns in COUNTERS.items():
        yield from _counters(reader, start, table, columns)


def _named(kind: str, pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def _processes(reader: RunReader) -> Iterator[Event]:
    for pid, role, rank, worker in reader.rows("SELECT pid, role, rank, worker FROM process"):
        number = {"rank": rank, "worker": worker}.get(role)
        name = f"{role or 'process'}{'' if number is None else f' {number}'}"
        yield _named("process_name", pid, 0, name)
        yield _named("thread_name", pid, STEPS, "batches" if role == "worker" else "steps")


def _steps(reader: RunReader, start: int) -> Iterator[Event]:
    phases = [f"{name}_ns" for name in _PHASES]
    columns = ("pid", "step", "t_ns", "duration_ns", "kind", "samples", "captured", *phases)
    for rows in rows_of(reader, "step", columns):
        for pid, step, t, duration, kind, samples, captured, *parts in rows:
            args = {"kind": kind, "samples": samples, "captured": captured}
            yield _span(f"step {step}", pid, STEPS, (t - start, duration), args)
            yield from _phases(pid, t - start, duration, parts)


def _phases(pid: int, at: float, duration: int, parts: Sequence[int | None]) -> Iterator[Event]:
    total = sum(part or 0 for part in parts)
    scale = min(1.0, duration / total) if total else 1.0
    for name, part in zip(_PHASES, parts, strict=True):
        if part:
            yield _span(name, pid, STEPS, (at, part * scale), {"ms": round(part / 1e6, 3)})
            at += part * scale


def _batches(reader: RunReader, start: int) -> Iterator[Event]:
    columns = ("t_ns", "pid", "worker", "fetch_ns", "collate_ns", "cpu_ns")
    for rows in rows_of(reader, "worker_batch", columns):
        for t, pid, worker, fetch, collate, cpu in rows:
            if worker is None or worker < 0 or not fetch:
                continue  # in the training process: inside its steps
            args = {"collate_ms": _ms(collate), "cpu_ms": _ms(cpu)}
            yield _span("batch", pid, STEPS, (t - start, fetch), args)


def _ms(value: int | None) -> float | None:
    return None if value is None else round(value / 1e6, 3)


def _windows(reader: RunReader, start: int) -> Iterator[Event]:
    rows = reader.rows('SELECT from_ns, to_ns, bottleneck, confidence FROM "window" ORDER BY 1')
    for begin, end, bottleneck, confidence in rows:
        span = (begin - start, end - begin)
        yield _span(bottleneck, MACHINE, VERDICT, span, {"confidence": confidence})


def _moments(reader: RunReader, start: int) -> Iterator[Event]:
    for t, kind, pid, data in reader.rows("SELECT t_ns, kind, pid, data FROM event ORDER BY t_ns"):
        yield {"ph": "i", "s": "g", "name": kind or "event", "pid": pid or MACHINE, "tid": EVENTS,
               "ts": _us(t - start), "args": {"data": str(data)[:2000]}}  # fmt: skip


# Columns by table: (column, name of the counter, factor)
COUNTERS: dict[str, tuple[tuple[str, str, float], ...]] = {
    "device_sample": (
        ("busy_share", "busy (%)", 100), ("memory_busy_share", "memory controller (%)", 100),
        ("sm_share", "SMs (%)", 100), ("tensor_share", "tensor cores (%)", 100),
        ("dram_share", "memory bandwidth (%)", 100), ("memory_used_bytes", "memory (MiB)", 2**-20),
        ("power_w", "power (W)", 1), ("temperature_c", "temperature (°C)", 1),
        ("sm_clock_hz", "clock (MHz)", 1e-6),
    ),
    "host_sample": (
        ("cpu_share", "CPU (%)", 100), ("iowait_share", "I/O wait (%)", 100),
        ("memory_used_bytes", "memory (MiB)", 2**-20),
        ("disk_read_bytes_per_s", "disk read (MB/s)", 1e-6),
        ("disk_write_bytes_per_s", "disk write (MB/s)", 1e-6),
        ("net_rx_bytes_per_s", "network in (MB/s)", 1e-6),
        ("net_tx_bytes_per_s", "network out (MB/s)", 1e-6),
    ),
    "process_sample": (("cpu_cores", "CPU (cores)", 1), ("rss_bytes", "memory (MiB)", 2**-20)),
}  # fmt: skip
_OWNER = {"device_sample": "device", "process_sample": "pid"}


def _counters(
    reader: RunReader, start: int, table: str, columns: Iterable[tuple[str, str, float]]
) -> Iterator[Event]:
    wanted = list(columns)
    owner = _OWNER.get(table)
    names = ["t_ns", *([owner] if owner else []), *(column for column, _, _ in wanted)]
    for rows in rows_of(reader, table, names):
        for row in rows:
            whose = row[1] if owner else None
            pid = whose if table == "process_sample" else MACHINE
            before = f"device {whose} " if table == "device_sample" else ""
            before = "host " if table == "host_sample" else before
            for (_, name, factor), value in zip(wanted, row[2 if owner else 1 :], strict=True):
                if value is not None and math.isfinite(value):
                    yield {"ph": "C", "name": before + name, "pid": pid,
                           "ts": _us(row[0] - start),
                           "args": {"value": round(value * factor, 3)}}  # fmt: skip


def _span(name: str, pid: int, tid: int, span: tuple[float, float], args: dict[str, Any]) -> Event:
    known = {key: value for key, value in args.items() if value is not None}
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": _us(span[0]),
            "dur": _us(span[1]), "args": known}  # fmt: skip


def _us(ns: float) -> float:
    return round(ns / 1e3, 3)
