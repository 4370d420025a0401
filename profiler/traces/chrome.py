"""Reads a Chrome trace file as torch.profiler (Kineto) writes it: plain or gzip, whole or cut off.

The file is untrusted: its size is bounded, unknown fields are skipped, and nothing in it is opened.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import msgspec

MAX_BYTES = 1 << 30  # of JSON text


class BadTrace(Exception):
    """The file is not a trace that this reader knows; the message is complete."""


class Args(msgspec.Struct, frozen=True):
    dims: Any = msgspec.field(name="Input Dims", default=None)
    dims_old: Any = msgspec.field(name="Input dims", default=None)
    types: Any = msgspec.field(name="Input type", default=None)
    concrete: Any = msgspec.field(name="Concrete Inputs", default=None)
    external: Any = msgspec.field(name="External id", default=None)
    external_old: Any = msgspec.field(name="external id", default=None)
    correlation: Any = None
    stream: Any = None
    device: Any = None
    bytes: Any = None


class Event(msgspec.Struct, frozen=True, gc=False):
    """A complete event ("X"); times in us as in the file, from the file's own base."""

    name: str = ""
    cat: str = ""
    ph: str = ""
    pid: Any = None
    tid: Any = None
    ts: float = 0.0
    dur: float = 0.0
    args: Args | None = None


class Trace(msgspec.Struct):
    events: list[Event] = msgspec.field(name="traceEvents")
    base_ns: int = msgspec.field(name="baseTimeNanoseconds", default=0)
    devices: list[dict[str, Any]] = msgspec.field(name="deviceProperties", default_factory=list)
    distributed: dict[str, Any] = msgspec.field(name="distributedInfo", default_factory=dict)
    truncated: bool = msgspec.field(name="accelprofTruncated", default=False)


def read_trace(path: Path, max_bytes: int = MAX_BYTES) -> Trace:
    """All complete events of a trace; `truncated` when the file was cut off."""
    data, cut = _read_bytes(path, max_bytes)
    head = data[:64].lstrip()
    if not head.startswith((b"{", b"[")):
        raise BadTrace(f"{path}: not a Chrome trace (JSON expected)")
    trace = _decode(data) if not cut else None
    if trace is None:
        repaired = _close_json(data)
        trace = _decode(repaired) if repaired else None
        if trace is None:
            raise BadTrace(f"{path}: not a readable Chrome trace")
        trace.truncated = True
    trace.events = [e for e in trace.events if e.ph == "X" and e.dur >= 0]
    return trace


def _read_bytes(path: Path, max_bytes: int) -> tuple[bytes, bool]:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not packed:
            data = file.read(max_bytes + 1)
            return data[:max_bytes], len(data) > max_bytes
        parts: list[bytes] = []
        total, unpack = 0, zlib.decompressobj(wbits=31)
        try:
            while total <= max_bytes and (chunk := file.read(1 << 18)):
                parts.append(unpack.decompress(chunk, max_bytes + 1 - total))
                total += len(parts[-1])
        except zlib.error:
            return b"".join(parts), True
        return b"".join(parts)[:max_bytes], total > max_bytes or not unpack.eof


def _decode(data: bytes) -> Trace | None:
    try:
        if data[:64].lstrip().startswith(b"["):
            return Trace(events=msgspec.json.decode(data, type=list[Event]))
        return msgspec.json.decode(data, type=Trace, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_lenient(data)


def _decode_lenient(data: bytes) -> Trace | None:
    """Traces with NaN, raw control characters, or bytes that are not UTF-8."""
    try:
        parsed = json.loads(data.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None
    if isinstance(parsed, list):
        parsed = {"traceEvents": parsed}
    if not isinstance(parsed, dict) or not isinstance(parsed.get("traceEvents"), list):
        return None
    events = []
    for item in parsed["traceEvents"]:
        try:
            events.append(msgspec.convert(item, Event, strict=False))
        except msgspec.ValidationError:
            continue
    base = parsed.get("baseTimeNanoseconds")
    return Trace(events=events, base_ns=base if isinstance(base, int) else 0)


def _close_json(data: bytes) -> bytes | None:
    """Cuts after the last event that looks whole and closes the brackets."""
    is_list = data[:64].lstrip().startswith(b"[")
    for mark in (b"\n  },", b"},\n", b"},{", b"}, {"):
        end = data.rfind(mark)
        if end > 0:
            stop = end + mark.index(b"}") + 1
            return data[:stop] + (b"]" if is_list else b"]}")
    return None
