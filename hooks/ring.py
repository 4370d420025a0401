"""The ring of span records: an mmap file of this process in the spool folder.

`emit` is the one function that hooks call, and it is replaced: it opens the ring on its first
call, in the process that calls it, so a forked child never writes into its parent's ring.
No locks: `pack_into` holds the GIL and the counter is atomic. Every record is written at once:
letting them wait for company was tried, and saved nothing inside of a real step.
"""

import itertools
import mmap
import os
import sys
import time

from . import facts, threads, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

clock = time.perf_counter_ns
cpu_clock = time.thread_time_ns

emit: "Callable[[int, int, int], None]"  # start and end (clock), meta; a thread's `other` in it
_words: "memoryview | None" = None  # of the header and all after it, 8 bytes each
_kept: "list[mmap.mmap]" = []  # never unmapped: its descriptor may by then be the job's


def meta(kind: int, ident: int = 0, value: int = 0, flags: int = 0) -> int:
    """Packs the third word of a record; what does not fit is cut off."""
    return (
        kind
        | flags << wire.FLAG_SHIFT
        | min(ident, wire.IDENT_MAX) << wire.IDENT_SHIFT
        | max(0, min(value, wire.VALUE_MAX)) << wire.VALUE_SHIFT
    )


def control() -> int:
    """The control word that the profiler writes; 0 before there is a ring."""
    return _words[wire.CONTROL_OFFSET >> 3] if _words is not None else 0


def is_open() -> bool:
    """Whether this process has a ring already."""
    return _words is not None


def reset() -> None:
    """In a forked child: forget the parent's ring."""
    global emit, _words
    emit, _words = _first, None
    threads.reset()


def _nothing(start: int, end: int, record: int) -> None:
    """Stands for `emit` where no ring could be opened."""


def _first(start: int, end: int, record: int) -> None:
    global emit
    emit = _nothing
    try:
        emit = _open()
    except Exception as error:
        facts.fact(wire.FACT_HOOK_OFF, hook="ring", error=f"{type(error).__name__}: {error}")
    emit(start, end, record)


def _open() -> "Callable[[int, int, int], None]":
    """Makes the ring of this process and the function that writes to it."""
    global _words
    facts.begin()
    size = wire.HEADER_SIZE + wire.RING_RECORDS * wire.RECORD_SIZE
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(f"{facts.spool}/{facts.process}.ring", flags, 0o600)
    try:
        # Reserved now: a page that the disk has no room for would kill the job with SIGBUS
        os.posix_fallocate(fd, 0, size)
        buffer = mmap.mmap(fd, size, **({"trackfd": False} if sys.version_info >= (3, 13) else {}))
    finally:
        os.close(fd)
    _kept.append(buffer)
    about = (wire.VERSION, wire.RING_RECORDS, os.getpid(), _wall_offset())
    wire.HEADER.pack_into(buffer, 0, bytes(8), *about)
    buffer[:8] = wire.MAGIC  # last: a header without it is not read
    _words = memoryview(buffer).cast("Q")

    pack, count = wire.RECORD.pack_into, itertools.count(1).__next__
    mask, first = wire.RING_RECORDS - 1, wire.HEADER_SIZE

    def emit(start: int, end: int, record: int) -> None:
        number = count()
        pack(buffer, first + ((number & mask) << 5), start, end - start, record, number)

    return emit


def _wall_offset() -> int:
    """Wall clock minus `clock`, ns, from the least disturbed of a few readings."""
    readings = []
    for _ in range(3):
        before, wall, after = clock(), time.time_ns(), clock()
        readings.append((after - before, wall - (before + after) // 2))
    return min(readings)[1]


emit = _first
