"""The ring of span records: an mmap file of this process in the spool folder.

Records are kept for up to LATE_NS and written together: among a step's cold memory a lone write
costs 5 us and keeping a record 1 us (in a row 0.3 and 0.2). They are kept as plain numbers, three a
record: objects would set off the garbage collector. A killed process loses what it kept. Forked
children, loader workers and Ray's, which end without a word, write at once. The ring opens with the
first write, in the process that writes.

Hooks call `emit`. The four of every training step do the same in place, without its frame:

    keep((start, end, record))
    if end >= home.late:
        flush()
"""

import mmap
import os
import sys
import time
from _thread import allocate_lock
from operator import eq, sub
from struct import pack_into

from . import facts, threads, wire
from .threads import home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Columns = tuple[list[int], list[int], list[int]]  # starts, ends and third words of records

clock = time.perf_counter_ns
cpu_clock = time.thread_time_ns
LATE_NS = 50_000_000

_late = LATE_NS
_kept: "list[int]" = []
keep = _kept.extend  # of a record as one tuple: a thread that comes between does not tear it
_lock = allocate_lock()  # of whoever writes
_write: "Callable[[Columns], None] | None" = None
_words: "memoryview | None" = None  # of the header and all after it, 8 bytes each
_mapped: "list[mmap.mmap]" = []  # never unmapped: its descriptor may by then be the job's

# A root that is called over and over between two other spans (a cell of a recurrent network) is
# one record, while its calls and what lies between them are short. Only calls in training: in
# inference each may be a step.
SHORT_NS, MANY = 200_000, 100
CHUNK = 32  # records a write
_FLAGS = wire.F_GRAD | wire.F_TRAINING
_CALL_MASK = wire.KIND_MASK | (_FLAGS | wire.F_RAISED) << wire.FLAG_SHIFT
_CALL = wire.FORWARD | _FLAGS << wire.FLAG_SHIFT
_CALLS = wire.F_CALLS << wire.FLAG_SHIFT


def meta(kind: int, ident: int = 0, value: int = 0, flags: int = 0) -> int:
    """Packs the third word of a record; what does not fit is cut off."""
    return (
        kind
        | flags << wire.FLAG_SHIFT
        | min(ident, wire.IDENT_MAX) << wire.IDENT_SHIFT
        | max(0, min(value, wire.VALUE_MAX)) << wire.VALUE_SHIFT
    )


def emit(start: int, end: int, record: int) -> None:
    """A span from `start` to `end` (clock). `record`: see meta, with a thread's `other` in it."""
    keep((start, end, record))
    if end >= home.late:
        flush()


def flush() -> None:
    """Writes what is kept. A thread that comes while another writes leaves it to that one."""
    global _write
    if not _lock.acquire(False):
        return
    try:
        home.late = clock() + _late if _late else 0
        found = _kept[:]
        if not found:
            return
        del _kept[: len(found)]
        if _write is None:
            _write = _opened()
        columns = found[::3], found[1::3], found[2::3]
        many = sum(map(eq, columns[2], columns[2][1:])) if len(found) > 3 * MANY else 0
        _write(columns if many < MANY else _joined(columns))
    finally:
        _lock.release()


def at_once() -> None:
    """From here on this process keeps nothing back."""
    global _late
    _late = home.late = 0


def control() -> int:
    """The control word that the profiler writes; 0 before there is a ring."""
    return _words[wire.CONTROL_OFFSET >> 3] if _words is not None else 0


def is_open() -> bool:
    """Whether this process has a ring already."""
    return _words is not None


def reset() -> None:
    """In a forked child: forget the parent's ring and what it kept."""
    global _lock, _write, _words
    _kept.clear()
    _lock, _write, _words = allocate_lock(), None, None
    at_once()
    threads.reset()


def _joined(columns: "Columns") -> "Columns":
    """The records, with runs of short calls of one root as one record each."""
    starts, ends, words = out = ([], [], [])  # type: Columns
    until, of, calls = 0, -1, 0
    for start, end, what in zip(*columns):
        short = what & _CALL_MASK == _CALL and end - start < SHORT_NS
        if short and what == of and 0 <= start - until < SHORT_NS:
            calls, until = calls + 1, end
            ends[-1], words[-1] = end, what | _CALLS | calls << wire.VALUE_SHIFT
        else:
            starts.append(start)
            ends.append(end)
            words.append(what)
            until, of, calls = end, what if short else -1, 1
    return out


def _dropped(columns: "Columns") -> None:
    """Stands for the writer where no ring could be opened."""


def _opened() -> "Callable[[Columns], None]":
    try:
        return _open()
    except Exception as error:
        facts.fact(wire.FACT_HOOK_OFF, hook="ring", error=f"{type(error).__name__}: {error}")
        return _dropped


def _open() -> "Callable[[Columns], None]":
    """Makes the ring of this process and the function that writes to it."""
    global _words
    if "ray" in sys.modules:
        at_once()
    facts.begin()
    size = wire.HEADER_SIZE + wire.RING_RECORDS * wire.RECORD_SIZE
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(f"{facts.spool}/{facts.process}.ring", flags, 0o600)
    try:
        # Reserved now: a page that the disk has no room for would kill the job with SIGBUS
        os.posix_fallocate(fd, 0, size)
        options: "Any" = {"trackfd": False} if sys.version_info >= (3, 13) else {}
        buffer = mmap.mmap(fd, size, **options)
    finally:
        os.close(fd)
    _mapped.append(buffer)
    about = (wire.VERSION, wire.RING_RECORDS, os.getpid(), _wall_offset())
    wire.HEADER.pack_into(buffer, 0, bytes(8), *about)
    buffer[:8] = wire.MAGIC  # last: a header without it is not read
    _words = memoryview(buffer).cast("Q")

    number = 0

    def write(columns: "Columns") -> None:
        nonlocal number
        starts, ends, words = columns
        at, many = 0, len(starts)
        flat = [0] * (4 * many)
        flat[::4], flat[2::4] = starts, words
        flat[1::4] = list(map(sub, ends, starts))
        flat[3::4] = range(number + 1, number + 1 + many)
        while at < many:  # word by word in this order: a record's number is its last
            slot = number + 1 & wire.RING_RECORDS - 1
            count = min(many - at, CHUNK, wire.RING_RECORDS - slot)
            place = wire.HEADER_SIZE + slot * wire.RECORD_SIZE
            pack_into(f"@{4 * count}Q", buffer, place, *flat[4 * at : 4 * (at + count)])
            at, number = at + count, number + count

    return write


def _wall_offset() -> int:
    """Wall clock minus `clock`, ns, from the least disturbed of a few readings."""
    readings = []
    for _ in range(3):
        before, wall, after = clock(), time.time_ns(), clock()
        readings.append((after - before, wall - (before + after) // 2))
    return min(readings)[1]
