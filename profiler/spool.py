"""Reads the spool: what the hooks tell of each process (facts), and its ring of spans (ring.py).

Everything in the spool is untrusted: sizes are bounded, only plain files of the folder itself are
opened, and no path from inside a file is.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..hooks import wire
from .clock import Clock
from .ring import BadRing, Ring, Span

NAME = re.compile(r"([1-9]\d{0,9})-([0-9a-f]{1,16})\.(facts|ring)")
CAPTURE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
MAX_PROCESSES = 20_000
MAX_LINE = 64 << 10
MAX_FACTS = 5_000
MAX_FACTS_BYTES = 8 << 20
ENDED_EVERY = 10  # polls without news between two looks at whether a process still lives

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass
class ProcessSpans:
    """What is new of one process since the last poll."""

    process: str  # PID-HEX
    pid: int
    first: bool  # the first news of this process
    facts: list[dict[str, Any]] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)  # by end time
    lost: int = 0  # records overwritten before they were read, or damaged
    notes: list[str] = field(default_factory=list)  # what is wrong with its files, each once
    ended: bool = False  # the process is gone and its files are read to the end


@dataclass
class _Process:
    name: str
    pid: int
    started: int  # as in its name
    next: int = 1  # the sequence number of the next record
    told: bool = False
    ring: Ring | None = None
    ring_refused: bool = False
    facts_fd: int = -1
    facts_refused: bool = False
    facts_at: int = 0
    tail: bytes = b""
    facts_count: int = 0
    exited: bool = False  # it said so itself
    gone: bool = False  # seen dead: one more read and it is over
    idle: int = 0

    def close(self) -> None:
        if self.ring is not None:
            os.close(self.ring.fd)
        if self.facts_fd >= 0:
            os.close(self.facts_fd)
        self.ring, self.facts_fd = None, -1


class SpoolReader:
    """Tails all processes of a spool folder. `poll` costs about 5 µs for an idle process.

    `positions` (as given by `positions()`) lets a restarted reader go on where the last one was;
    facts are always told from the start. `clock` puts spans on the run's axis (see Clock.align).
    `alive` tells whether a pid still runs.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Clock | None = None,
        positions: Mapping[str, int] | None = None,
        alive: Callable[[int], bool] | None = None,
    ) -> None:
        self.folder = folder
        self.notes: list[str] = []  # about the folder itself
        self._clock = clock
        self._positions = dict(positions or {})
        self._alive = alive or _is_alive
        self._processes: dict[str, _Process] = {}
        self._ended: dict[str, int] = {}
        self._listed: tuple[int, int] | None = None

    def poll(self) -> list[ProcessSpans]:
        """The news of every process that has any. Never raises for what is in the folder."""
        self._discover()
        found = []
        for process in list(self._processes.values()):
            news = ProcessSpans(process.name, process.pid, first=not process.told)
            last = process.gone
            try:
                self._read_facts(process, news)
                self._read_ring(process, news)
            except OSError as error:
                news.notes.append(f"spool files of {process.name} cannot be read: {error.strerror}")
                last = True
            quiet = not (news.facts or news.spans or news.lost)
            if last:
                news.ended = True
                process.close()
                del self._processes[process.name]
                self._ended[process.name] = process.next
            else:
                self._look_after(process, quiet)
            if not quiet or news.notes or news.ended or news.first:
                process.told = True
                found.append(news)
        return found

    def positions(self) -> dict[str, int]:
        """The next sequence number of each process, for a later reader."""
        return self._ended | {p.name: p.next for p in self._processes.values()}

    def request_capture(self, process: str, steps: int) -> bool:
        """Asks a process to capture the operators of `steps` steps; False if it cannot be asked."""
        known = self._processes.get(process)
        if known is None or known.ring is None or not 1 <= steps <= 0xFF:
            return False
        try:
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(self.folder / f"{process}.ring", flags)
        except OSError:
            return False
        try:
            if not os.path.sameopenfile(fd, known.ring.fd):
                return False
            size = wire.CONTROL.size
            (word,) = wire.CONTROL.unpack(os.pread(fd, size, wire.CONTROL_OFFSET))
            count = ((word >> 8) + 1) & ((1 << 56) - 1)
            os.pwrite(fd, wire.CONTROL.pack(count << 8 | steps), wire.CONTROL_OFFSET)
        finally:
            os.close(fd)
        return True

    def capture_file(self, name: object) -> Path | None:
        """The path of a capture that a fact names; None unless it is a plain file of the spool."""
        if not isinstance(name, str) or not CAPTURE_NAME.fullmatch(name) or NAME.fullmatch(name):
            return None
        path = self.folder / name
        try:
            return path if stat.S_ISREG(path.lstat().st_mode) else None
        except OSError:
            return None

    def close(self) -> None:
        for process in self._processes.values():
            process.close()
        self._processes.clear()

    # -- processes ---------------------------------------------------------------------------

    def _discover(self) -> None:
        """New files. The folder is listed only when it changed."""
        try:
            status = self.folder.stat()
            # The time of a folder is coarse: a change soon after a listing may not move it
            seen = (status.st_mtime_ns, status.st_ctime_ns)
            if seen == self._listed:
                return
            names = os.listdir(self.folder)  # noqa: PTH208 (a list of names is all that is wanted)
        except OSError as error:
            self._note_once(f"the spool folder cannot be listed: {error.strerror}")
            return
        settled = (self._clock or _WALL).now_ns() - status.st_mtime_ns > 50_000_000
        self._listed = seen if settled else None
        for name in names:
            match = NAME.fullmatch(name)
            if match is None:
                continue
            process = name.rpartition(".")[0]
            if process in self._processes or process in self._ended:
                continue
            if len(self._processes) + len(self._ended) >= MAX_PROCESSES:
                self._note_once(f"more than {MAX_PROCESSES} processes: the rest are left out")
                return
            start = self._positions.get(process, 1)
            new = _Process(process, int(match[1]), int(match[2], 16), max(1, start))
            for other in self._processes.values():  # the same pid: exec, or a reused pid
                if other.pid == new.pid:
                    min(other, new, key=lambda p: p.started).gone = True
            self._processes[process] = new

    def _note_once(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    def _look_after(self, process: _Process, quiet: bool) -> None:
        """Finds out, now and then, that a process has ended."""
        process.idle = process.idle + 1 if quiet else 0
        if process.exited or process.idle % ENDED_EVERY == ENDED_EVERY - 1:
            process.gone = process.gone or not self._alive(process.pid)

    def _open(self, name: str) -> int | None:
        """A regular file of the folder, or None while it is not there."""
        try:
            fd = os.open(self.folder / name, _OPEN)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(0, "not a plain file")
        return fd

    # -- facts -------------------------------------------------------------------------------

    def _read_facts(self, process: _Process, news: ProcessSpans) -> None:
        if process.facts_refused:
            return
        if process.facts_fd < 0:
            fd = self._open(f"{process.name}.facts")
            if fd is None:
                return
            process.facts_fd = fd
        while data := os.pread(process.facts_fd, MAX_LINE, process.facts_at):
            process.facts_at += len(data)
            *lines, process.tail = (process.tail + data).split(b"\n")
            news.facts += filter(None, (_fact(line) for line in lines))
            if len(process.tail) >= MAX_LINE:
                process.tail = b""
                news.notes.append(f"{process.name}: a fact longer than {MAX_LINE} bytes left out")
            if (
                process.facts_at > MAX_FACTS_BYTES
                or process.facts_count + len(news.facts) > MAX_FACTS
            ):
                process.facts_refused = True
                del news.facts[MAX_FACTS:]
                news.notes.append(f"{process.name}: too many facts, the rest are left out")
                break
        process.facts_count += len(news.facts)
        process.exited |= any(f["k"] == wire.FACT_EXIT for f in news.facts)

    # -- ring --------------------------------------------------------------------------------

    def _read_ring(self, process: _Process, news: ProcessSpans) -> None:
        if process.ring is None:
            process.ring = None if process.ring_refused else self._open_ring(process, news)
        ring = process.ring
        if ring is not None:
            before = ring.lost
            ring.read(news.spans, final=process.gone)
            news.lost = ring.lost - before
            process.next = ring.next

    def _open_ring(self, process: _Process, news: ProcessSpans) -> Ring | None:
        """None while it is not there or not ready, or when refused."""
        fd = self._open(f"{process.name}.ring")
        if fd is None:
            return None
        ring = None
        try:
            ring = Ring.open(fd, process.next)
        except BadRing as error:
            process.ring_refused = True
            news.notes.append(f"spans of {process.name} refused: {error}")
        if ring is None:
            os.close(fd)
        elif self._clock is not None:
            ring.offset_ns = self._clock.align(ring.offset_ns)
        return ring


_WALL = Clock()


def _fact(line: bytes) -> dict[str, Any] | None:
    """One line of a facts file; anything that is not a fact is nothing."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("k"), str) else None


def _is_alive(pid: int) -> bool:
    """Whether the process still runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return False
    return text.rpartition(b")")[2].split()[:1] not in ([b"Z"], [b"X"])
