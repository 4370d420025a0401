"""The ring of span records: an mmap file of this process in the spool folder.

`emit` is the one function that hooks call, and it is replaced: it opens the ring on its first
call, in the process that calls it, so a forked child never writes into its parent's ring.
No locks: `pack_into` holds the GIL and the counter is atomic.
"""

import itertools
import mmap
import os
import sys
import time
from _thread import get_ident

from . import facts, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

clock = time.perf_counter_ns
cpu_clock = time.thread_time_ns

home = get_ident()  # the thread that imported torch, or made the first record
emit: "Callable[[int, int, int], None]"
_buffer: "mmap.mmap | None" = None
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
    if _buffer is None:
        return 0
    word: int = wire.CONTROL.unpack_from(_buffer, wire.CONTROL_OFFSET)[0]
    return word


def is_open() -> bool:
    """Whether this process has a ring already."""
    return _buffer is not None


def reset() -> None:
    """In a forked child: forget the parent's ring."""
    global emit, home, _buffer
    emit, home, _buffer = _first, get_ident(), None


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
    global _buffer
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
    _buffer = buffer

    pack, count, thread = wire.RECORD.pack_into, itertools.count(1).__next__, get_ident
    mask, first, at_home = wire.RING_RECORDS - 1, wire.HEADER_SIZE, home
    other = wire.F_OTHER_THREAD << wire.FLAG_SHIFT

    def emit(start: int, end: int, record: int) -> None:
        if thread() != at_home:
            record |= other
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
