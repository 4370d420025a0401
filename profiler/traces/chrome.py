"""Reads a Chrome trace file as torch.profiler (Kineto) writes it: plain or gzip, whole or cut off.

In pieces: a piece of the text is decoded at once and only its complete events ("X") are kept, equal
shapes, types and names once. So 500 MB of text cost about as much memory as their events.

The file is untrusted: sizes are bounded, unknown fields are skipped, and nothing in it is opened.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

MAX_BYTES = 4 << 30  # of JSON text
MAX_EVENTS = 5_000_000  # kept; 0.3 kB each
PIECE = 4 << 20
MAX_HEAD = 64 << 20  # of text before the events
CUTS_TRIED = 8  # places where a piece may end, before its events are read one by one
NEAR_END = 4096  # characters before the end of a piece
NS_SINCE_1973 = 1e17  # no time in us is that large: such a trace counts in ns
MOST_TIME = 9e18  # of a time stamp; as ns it is still a 64-bit number
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(rb"\}\s*,\s*(?=\{)")
_BETWEEN_TEXT = re.compile(r"\}\s*,\s*(?=\{)")


# What an event may be told apart by; one with anything else there is skipped.
Ident = int | float | str | None


class BadTrace(Exception):
    """The file is not a trace that this reader knows; the message is complete."""


class _Ids(msgspec.Struct, gc=False):
    external: Ident = msgspec.field(name="External id", default=None)
    external_old: Ident = msgspec.field(name="external id", default=None)
    correlation: Ident = None
    device: Ident = None
    bytes: Any = None


class Args(_Ids, gc=False):
    dims: Any = msgspec.field(name="Input Dims", default=None)
    dims_old: Any = msgspec.field(name="Input dims", default=None)
    types: Any = msgspec.field(name="Input type", default=None)
    concrete: Any = msgspec.field(name="Concrete Inputs", default=None)


class _Span(msgspec.Struct, gc=False):
    name: str = ""
    cat: str = ""
    ph: str = ""
    pid: Ident = None
    tid: Ident = None
    ts: float = 0.0
    dur: float = 0.0


class Event(_Span, gc=False):
    """A complete event ("X"); times in us as in the file, from the file's own base."""

    args: Args | None = None


class _RawArgs(_Ids):
    """What repeats thousands of times stays text until it is known to be new."""

    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=msgspec.Raw())
    dims_old: msgspec.Raw = msgspec.field(name="Input dims", default=msgspec.Raw())
    types: msgspec.Raw = msgspec.field(name="Input type", default=msgspec.Raw())
    concrete: msgspec.Raw = msgspec.field(name="Concrete Inputs", default=msgspec.Raw())


class _RawEvent(_Span):
    args: _RawArgs | None = None


class _About(msgspec.Struct):
    """What stands beside the events."""

    base_ns: int = msgspec.field(name="baseTimeNanoseconds", default=0)
    devices: list[dict[str, Any]] = msgspec.field(name="deviceProperties", default_factory=list)
    distributed: dict[str, Any] = msgspec.field(name="distributedInfo", default_factory=dict)


@dataclass
class Trace:
    """All complete events of a trace."""

    events: list[Event] = field(default_factory=list)
    base_ns: int = 0
    devices: list[dict[str, Any]] = field(default_factory=list)
    distributed: dict[str, Any] = field(default_factory=dict)
    truncated: bool = False  # the file was cut off
    skipped: int = 0  # events that could not be read
    limited: str | None = None  # why the rest was left out


def read_trace(path: Path, max_bytes: int = MAX_BYTES, max_events: int = MAX_EVENTS) -> Trace:
    """All complete events of a trace. Raises `BadTrace`, `OSError`."""
    with path.open("rb") as file:
        text = _Text(file, max_bytes)
        trace = Trace()
        head, rest = _head(text, path)
        reader = _Events(trace, max_events)
        while not reader.ended and trace.limited is None:
            piece = text.more()
            rest = reader.take(rest + piece, last=not piece)
            if not piece:
                break
        else:
            rest += text.rest(MAX_HEAD) if trace.limited is None else b""
    trace.truncated = not reader.ended and trace.limited is None
    if text.full:
        trace.limited = trace.limited or f"only the first {max_bytes >> 20} MiB of text were read"
    if not trace.events and (trace.skipped or (trace.truncated and rest.strip())):
        raise BadTrace(f"{path}: not a readable Chrome trace")
    _describe(trace, head, rest if reader.ended else b"")
    if not trace.base_ns and trace.events and min(e.ts for e in trace.events) > NS_SINCE_1973:
        for event in trace.events:
            event.ts, event.dur = event.ts / 1e3, event.dur / 1e3
    return trace


class _Text:
    """The file's text piece by piece, unpacked when it is packed."""

    def __init__(self, file: BinaryIO, max_bytes: int) -> None:
        self._file = file
        self._left = max_bytes
        self.full = False  # there is more than may be read
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        self._unpack = zlib.decompressobj(wbits=31) if packed else None

    def more(self) -> bytes:
        """The next piece; empty at the end or where the packed data breaks off."""
        if self._left <= 0:
            self.full = self.full or bool(self._file.read(1))
            return b""
        piece = self._file.read(PIECE) if self._unpack is None else self._unpacked(self._unpack)
        piece = piece[: self._left]
        self._left -= len(piece)
        return piece

    def _unpacked(self, unpack: Any) -> bytes:
        while True:
            packed = unpack.unconsumed_tail or unpack.unused_data or self._file.read(1 << 18)
            if unpack.eof:  # bgzip and pigz write several members
                if not packed.startswith(b"\x1f\x8b"):
                    break
                unpack = self._unpack = zlib.decompressobj(wbits=31)
            if not packed:
                break
            try:
                if piece := unpack.decompress(packed, PIECE):
                    return bytes(piece)
            except zlib.error:
                break
        return b""

    def rest(self, most: int) -> bytes:
        """What is left, up to `most` bytes."""
        pieces: list[bytes] = []
        while most > 0 and (piece := self.more()):
            pieces.append(piece)
            most -= len(piece)
        return b"".join(pieces)


def _head(text: _Text, path: Path) -> tuple[bytes, bytes]:
    """(the text before the list of events, what was read after its bracket)"""
    found = text.more().removeprefix(codecs.BOM_UTF8)
    start = found[:64].lstrip()
    if start.startswith(b"["):
        return b"", found.partition(b"[")[2]
    if not start.startswith(b"{"):
        raise BadTrace(f"{path}: not a Chrome trace (JSON as UTF-8 expected)")
    while (match := _EVENTS.search(found)) is None:
        piece = text.more()
        if not piece or len(found) > MAX_HEAD:
            raise BadTrace(f"{path}: not a readable Chrome trace (it has no list of events)")
        found += piece
    return found[: match.start()], found[match.end() :]


class _Events:
    """Takes the text of the list of events."""

    def __init__(self, trace: Trace, most: int) -> None:
        self.ended = False  # the list's closing bracket was seen
        self._trace = trace
        self._most = most
        self._decode = msgspec.json.Decoder(list[_RawEvent], strict=False)
        self._known: dict[bytes, Any] = {}

    def take(self, text: bytes, *, last: bool) -> bytes:
        """Keeps the events of `text`; gives back what is not an event yet, or behind the list."""
        cuts = [m.start() + 1 for m in _BETWEEN.finditer(text, max(0, len(text) - (1 << 16)))]
        for cut in reversed(cuts[-CUTS_TRIED:]):
            try:
                found = self._decode.decode(b"[" + text[:cut] + b"]")
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            self._keep(found)
            text = text[cut:].lstrip().removeprefix(b",")
            break
        else:
            return self._one_by_one(text, last)
        return self._one_by_one(text, last) if last else text

    def _one_by_one(self, raw: bytes, last: bool) -> bytes:
        """For the end of the list, and for text with an error, a NaN or a raw control character."""
        text = raw.decode("utf-8", "replace")
        scan, at = json.JSONDecoder(strict=False).raw_decode, 0
        found: list[_RawEvent] = []
        while True:
            while at < len(text) and text[at] in " \t\r\n,":
                at += 1
            if at >= len(text):
                break
            if text[at] == "]":
                self.ended = True
                at += 1
                break
            try:
                item, at = scan(text, at)
            except RecursionError:
                at = self._after_error(text, at)
            except ValueError as error:
                near_end = len(text) - getattr(error, "pos", 0) < NEAR_END
                if near_end and not (last and _BETWEEN_TEXT.search(text, at)):
                    break  # it may only be cut off here
                at = self._after_error(text, at)
            else:
                self._add(found, item)
        self._keep(found)
        return text[at:].encode("utf-8", "replace")

    def _after_error(self, text: str, at: int) -> int:
        self._trace.skipped += 1
        following = _BETWEEN_TEXT.search(text, at)
        return following.end() if following else len(text)

    def _add(self, found: list[_RawEvent], item: Any) -> None:
        try:
            found.append(msgspec.json.decode(msgspec.json.encode(item), type=_RawEvent,
                                             strict=False))  # fmt: skip
        except (msgspec.DecodeError, msgspec.ValidationError, TypeError, UnicodeError):
            self._trace.skipped += 1

    def _keep(self, found: list[_RawEvent]) -> None:
        events, intern = self._trace.events, sys.intern
        for raw in found:
            if raw.ph != "X":
                continue
            if not (0 <= raw.dur <= MOST_TIME / 1e3 and abs(raw.ts) <= MOST_TIME):
                self._trace.skipped += 1
                continue
            if len(events) >= self._most:
                self._trace.limited = f"only the first {self._most:,} events were read"
                return
            args = self._args(raw.args) if raw.args is not None else None
            events.append(Event(intern(raw.name), intern(raw.cat), "X", raw.pid, raw.tid, raw.ts,
                                raw.dur, args))  # fmt: skip

    def _args(self, raw: _RawArgs) -> Args:
        shared = self._shared
        return Args(
            raw.external, raw.external_old, raw.correlation, raw.device, raw.bytes,
            shared(raw.dims), shared(raw.dims_old), shared(raw.types), shared(raw.concrete),
        )  # fmt: skip

    def _shared(self, raw: msgspec.Raw) -> Any:
        """The value of a piece of JSON, the same object for the same text."""
        text = bytes(raw)
        if not text:
            return None
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = msgspec.json.decode(text)
        return known


def _describe(trace: Trace, head: bytes, tail: bytes) -> None:
    """The fields beside the events; what cannot be read is left out."""
    if not head:
        return
    start = head + b'"traceEvents": []'
    for text in (start + tail, start + b"}"):
        try:
            about = msgspec.json.decode(text, type=_About, strict=False)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        trace.base_ns = about.base_ns if abs(about.base_ns) < 1 << 62 else 0
        trace.devices, trace.distributed = about.devices, about.distributed
        return
