"""One process's ring of span records, read while it is being written.

The newest record is found first, then the block is read again, so each record was complete before
the read that is used. A look at the slot before the block tells whether the writer came round
meanwhile. `pread`, never a mapping: a mapped file that is cut short kills its reader.
"""

from __future__ import annotations

import os
from struct import Struct
from typing import TypeAlias

from ..hooks import wire

# start and end (UTC ns), kind, flags, ident, value: see hooks/wire.py. A plain tuple for speed.
Span: TypeAlias = tuple[int, int, int, int, int, int]

MAX_CAPACITY = 1 << 20  # records: 32 MiB
BLOCK = 2048  # records a read
MARGIN = 64  # records this near to being overwritten are given up
PATIENCE = 3  # reads to wait for a record that a thread has begun and not finished
MAX_SPAN_NS = 1 << 50  # 13 days
MAX_TIME_NS = 1 << 62

_SEQUENCE = Struct("@Q")


class BadRing(Exception):
    """A file that is refused; the text says why."""


class Ring:
    """Reads on from record `next`. `lost` counts records overwritten before they were read, those
    that a thread never finished, and those with times that make no sense."""

    def __init__(self, fd: int, capacity: int, offset_ns: int, start: int) -> None:
        self.fd = fd
        self.offset_ns = offset_ns  # UTC minus the process's perf_counter_ns
        self.next = start
        self.lost = 0
        self._capacity = capacity
        self._waits = 0  # reads that a missing record held up

    @classmethod
    def open(cls, fd: int, start: int) -> Ring | None:
        """Takes over `fd`. None while the header is not written; raises BadRing."""
        header = os.pread(fd, wire.HEADER.size, 0)
        if len(header) < wire.HEADER.size or header[:8] == bytes(8):
            return None
        magic, version, capacity, _, offset_ns = wire.HEADER.unpack(header)
        reason = _refusal(magic, version, capacity, offset_ns, os.fstat(fd).st_size)
        if reason:
            raise BadRing(reason)
        return cls(fd, capacity, offset_ns, start)

    def read(self, into: list[Span], *, final: bool = False) -> None:
        """Appends what is new, by end time. `final`: nobody will finish a record begun."""
        # One round of the ring at the most, however fast the writer is
        stop, at = self.next + self._capacity, len(into)
        while self.next < stop and self._read_block(into, final):
            pass
        if any(into[i][1] > into[i + 1][1] for i in range(at, len(into) - 1)):
            into[at:] = sorted(into[at:], key=lambda span: span[1])

    def _read_block(self, into: list[Span], final: bool) -> bool:
        """Reads to the end of a block; False when there is nothing more."""
        first = self.next
        most = min(BLOCK, self._capacity - self._slot(first))
        ready = _complete(self._pread(first, most), first)
        if ready == 0:
            return self._pass_missing(final)
        self._waits = 0
        data = self._pread(first, ready)
        before = first - MARGIN
        if self._sequence(before) >= before + self._capacity > 0:
            self._skip_overwritten(first)
            return True
        took = self._take(data, into)
        self.next = first + took
        return took > 0

    def _take(self, data: bytes, into: list[Span]) -> int:
        offset, took = self.offset_ns, 0
        for start, duration, meta, _ in wire.RECORD.iter_unpack(data):
            took += 1
            if duration > MAX_SPAN_NS or start > MAX_TIME_NS:
                self.lost += 1
                continue
            at = start + offset
            kind, flags, ident = meta & 0xFF, meta >> 8 & 0xFF, meta >> 16 & 0xFFFF
            into.append((at, at + duration, kind, flags, ident, meta >> 32))
        return took

    def _pass_missing(self, final: bool) -> bool:
        """The next record is not there: nothing new, overwritten, or held up by a slow thread."""
        expected = self.next
        found = self._sequence(expected)
        if found > expected and (found - expected) % self._capacity == 0 and found < MAX_TIME_NS:
            self._skip_overwritten(found)
            return True
        later = self._first_after(expected)
        if later is None:
            self._waits = 0
            return False
        self._waits += 1
        if self._waits <= PATIENCE and not final:
            return False
        self._waits = 0
        self.lost += later - expected
        self.next = later
        return True

    def _first_after(self, expected: int) -> int | None:
        """The nearest record after a hole of a few."""
        nearby = range(expected + 1, expected + MARGIN if self._waits else expected + 3)
        return next((n for n in nearby if self._sequence(n) == n), None)

    def _skip_overwritten(self, known: int) -> None:
        """Goes on at the oldest record that is still safe to read. `known` is one that exists."""
        low, high = known, known + self._capacity
        while high - low > 1:  # the newest one of an unbroken run
            middle = (low + high) // 2
            if self._sequence(middle) >= middle:
                low = middle
            else:
                high = middle
        oldest = max(self.next + 1, low - self._capacity + 1 + 2 * MARGIN)
        self.lost += oldest - self.next
        self.next = oldest

    def _slot(self, record: int) -> int:
        return record & (self._capacity - 1)

    def _pread(self, record: int, count: int) -> bytes:
        at = wire.HEADER_SIZE + self._slot(record) * wire.RECORD_SIZE
        data = os.pread(self.fd, count * wire.RECORD_SIZE, at)
        return data[: len(data) // wire.RECORD_SIZE * wire.RECORD_SIZE]  # it may have been cut

    def _sequence(self, record: int) -> int:
        """The sequence number that stands in the slot of a record."""
        end = wire.HEADER_SIZE + (self._slot(record) + 1) * wire.RECORD_SIZE
        data = os.pread(self.fd, _SEQUENCE.size, end - _SEQUENCE.size)
        return int(_SEQUENCE.unpack(data)[0]) if len(data) == _SEQUENCE.size else 0


def _complete(data: bytes, first: int) -> int:
    """How many records from the start of `data` carry the sequence numbers from `first` on."""
    count = 0
    for record in wire.RECORD.iter_unpack(data):
        if record[3] != first + count:
            break
        count += 1
    return count


def _refusal(magic: bytes, version: int, capacity: int, offset_ns: int, size: int) -> str | None:
    if magic != wire.MAGIC:
        return "not a ring of accelprof"
    if version != wire.VERSION:
        return f"written by another version of the hooks ({version}, this is {wire.VERSION})"
    if capacity & (capacity - 1) or not 4 * MARGIN <= capacity <= MAX_CAPACITY:
        return f"a ring of {capacity} records"
    if size < wire.HEADER_SIZE + capacity * wire.RECORD_SIZE:
        return "the file is cut short"
    if not 0 <= offset_ns < 4 * 10**18:
        return "its clock makes no sense"
    return None
