"""An nvidia-smi log as a run's rows, alone or beside a trace of the same hours.

It has device samples and no steps: what the devices did, never why.
"""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from datetime import datetime, timedelta, timezone
from pathlib import Path

from ..accelerators.catalogue import Accelerator
from .chrome import BadTrace
from .imported import Imported, device_row
from .nvidia_smi import NotAnSmiLog, SmiLog, read

MAX_BYTES = 256 << 20  # of text: a week of 8 devices at 1 Hz has 500 MB, its first half is used
PLACES = ("t_ns", "device")  # columns of a sample that are no readings
ZONE_STEP_NS = 900_000_000_000  # zones differ by quarters of an hour,
ZONE_MOST = 14 * 4  # and by at most 14 of them from UTC


def import_log(path: Path, known: Accelerator | None = None) -> Imported:
    """Raises BadTrace when it is no such log, OSError."""
    found = Imported(path)
    log = _read(path)
    times = [int(row["t_ns"]) for row in log.samples if row["t_ns"] is not None]
    if not times:
        raise BadTrace(f"{path}: an nvidia-smi log without a sample" + (
            f"; the first of {log.skipped} lines that could not be read: {log.unread[:80]}"
            if log.skipped else ""))  # fmt: skip
    found.started_ns, found.ended_ns = min(times), max(times)
    found.notes.append("a log of nvidia-smi has none")
    found.notes += log.notes
    if log.skipped:
        found.notes.append(f"{log.skipped} lines of the log could not be read")
    if not any(row[c] is not None for row in log.samples for c in row if c not in PLACES):
        found.notes.insert(0, "no reading in the log of nvidia-smi is a number")
    for device, name in sorted(log.names.items()):
        held = [row.get("memory_total_bytes") for row in log.samples if row["device"] == device]
        memory = next((int(value) for value in held if value is not None), None)
        row, _ = device_row(device, name or (known.name if known else "GPU"), memory, known)
        found.add("device", row | {"uuid": log.uuids.get(device)})
    found.add("device_sample", *log.samples)
    return found


def _read(path: Path) -> SmiLog:
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        data = _unpacked(raw) if packed else raw.read(MAX_BYTES)
    lines = io.StringIO(text_of(data))
    local = datetime.fromtimestamp(path.stat().st_mtime).astimezone()
    try:
        return read(lines, start_ns=_start_ns(path, data), tz=local)
    except NotAnSmiLog as error:
        raise BadTrace(f"{path}: {error}") from None


def text_of(data: bytes) -> str:
    """The text, as Linux and as Windows' shells write it."""
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if wide else "utf-8-sig", "replace")


def _unpacked(raw: io.BufferedReader) -> bytes:
    parts: list[bytes] = []
    try:
        with gzip.open(raw) as text:
            while sum(map(len, parts)) < MAX_BYTES and (part := text.read(1 << 20)):
                parts.append(part)
    except (EOFError, zlib.error, OSError):
        pass  # cut off: what came before is used
    return b"".join(parts)


def _start_ns(path: Path, data: bytes) -> int:
    """For a log without times: it ended when its file was last written, a line a second."""
    return int(path.stat().st_mtime * 1e9) - data.count(b"\n") * 1_000_000_000


def beside(log: Imported, traces: list[Imported]) -> Imported | None:
    """The part of a log that is about the devices of these traces; None when there is none.

    nvidia-smi writes local times without their zone: the log is moved by whole quarters of an hour
    until it covers the traces. What a trace measures itself (kernels that run) is left out.
    """
    start = min(t.started_ns for t in traces)
    end = max(t.ended_ns for t in traces)
    shift = next(
        (k * ZONE_STEP_NS for k in sorted(range(-ZONE_MOST, ZONE_MOST + 1), key=abs)
         if log.started_ns + k * ZONE_STEP_NS <= start and end <= log.ended_ns + k * ZONE_STEP_NS),
        None,
    )  # fmt: skip
    numbers = {t.device for t in traces if t.device is not None}
    told = {row["device"] for row in log.rows["device"]}
    if shift is None or not numbers & told:
        why = "covers another time" if shift is None else "does not list the traces' devices"
        traces[0].notes.append(f"{log.path.name} {why} and is left out")
        return None
    if shift:
        zone = timezone(timedelta(seconds=-shift / 1e9))
        traces[0].notes.append(f"the times of {log.path.name} were taken to be of {zone}")
    found = Imported(log.path, notes=log.notes[1:])
    found.started_ns, found.ended_ns = log.started_ns + shift, log.ended_ns + shift
    found.add("device_sample", *(
        row | {"t_ns": row["t_ns"] + shift, "busy_share": None}
        for row in log.rows["device_sample"] if row["device"] in numbers
    ))  # fmt: skip
    return found
