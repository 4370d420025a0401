"""The job's processes: CPU, memory, threads, I/O and state, each from two small files of /proc.

A process costs about 40 µs a sample. Its PSS does not: the kernel walks all its pages with its
memory map held. So PSS is read for all processes together, and seldom.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

from . import Collector, Row

FIRST_PSS_NS = 5_000_000_000
PSS_EVERY_NS = 30_000_000_000
PSS_SHARE = 0.002  # of one core, at the most
MOST = 1000  # processes a sample
STATES = {
    "R": "running", "S": "sleeping", "D": "disk-sleep", "T": "stopped", "t": "tracing-stop",
    "Z": "zombie", "X": "dead", "I": "idle",
}  # fmt: skip
_IO = {"rchar:": 0, "read_bytes:": 1, "write_bytes:": 2}


class _Reading(NamedTuple):
    """Counters of a process. `started`, in ticks, tells a reused pid."""

    t_ns: int
    started: int
    cpu_ticks: int
    rss_pages: int
    threads: int
    state: str
    io: tuple[int, int, int] | None  # rchar, read_bytes, write_bytes


class ProcessCollector(Collector):
    """Rows of process_sample; all rows of a sample have the same t_ns.

    `pids` gives the processes to look at. Rates need two samples of a process. PSS is None but in
    the seldom samples that have it.
    """

    name = "processes"
    default_rate_hz = 2.0

    def __init__(self, pids: Callable[[], Collection[int]], *, root: Path = Path("/")) -> None:
        self._pids = pids
        self._proc = root / "proc"
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._before: dict[int, _Reading] = {}
        self._pss_due_ns: int | None = None
        self._refused: dict[str, str] = {}  # metric: why it was refused
        self._told: set[str] = set()

    def sample(self, t_ns: int) -> list[Row]:
        with_pss = self._pss_is_due(t_ns)
        began = time.thread_time_ns()
        readings: dict[int, _Reading] = {}
        rows: list[Row] = []
        for pid in sorted(self._pids())[:MOST]:
            reading = self._read(pid, t_ns)
            if reading is not None:
                readings[pid] = reading
                pss = self._pss(pid) if with_pss else None
                rows.append(("process_sample", self._row(pid, reading, pss)))
        self._before = readings
        if with_pss:
            cost = time.thread_time_ns() - began
            self._pss_due_ns = t_ns + max(PSS_EVERY_NS, round(cost / PSS_SHARE))
        for metric in self._refused.keys() - self._told:
            self._told.add(metric)
            rows.append(("gap", (t_ns, self.name, metric, None, self._refused[metric])))
        return rows

    def _pss_is_due(self, t_ns: int) -> bool:
        if self._pss_due_ns is None:
            self._pss_due_ns = t_ns + FIRST_PSS_NS
        return t_ns >= self._pss_due_ns and "pss_bytes" not in self._told

    def _read(self, pid: int, t_ns: int) -> _Reading | None:
        """None for a process that is gone."""
        try:
            text = (self._proc / str(pid) / "stat").read_text("utf-8", "replace")
            fields = text.rpartition(")")[2].split()
            return _Reading(
                t_ns, int(fields[19]), int(fields[11]) + int(fields[12]), int(fields[21]),
                int(fields[17]), STATES.get(fields[0], fields[0]), self._io(pid),
            )  # fmt: skip
        except (OSError, ValueError, IndexError):
            return None

    def _io(self, pid: int) -> tuple[int, int, int] | None:
        try:
            words = (self._proc / str(pid) / "io").read_text("ascii").split()
        except PermissionError:
            reason = "another user's /proc/PID/io: only root or CAP_SYS_PTRACE may read it"
            self._refused["read_bytes_per_s"] = reason
            return None
        except OSError:
            self._refused["read_bytes_per_s"] = "no /proc/PID/io (CONFIG_TASK_IO_ACCOUNTING)"
            return None
        found = [0, 0, 0]
        for name, value in zip(words[::2], words[1::2], strict=False):
            if name in _IO:
                found[_IO[name]] = int(value)
        return found[0], found[1], found[2]

    def _pss(self, pid: int) -> int | None:
        try:
            text = (self._proc / str(pid) / "smaps_rollup").read_text("ascii")
        except PermissionError:
            reason = (
                "another user's /proc/PID/smaps_rollup: only root or CAP_SYS_PTRACE may read it"
            )
            self._refused["pss_bytes"] = reason
            return None
        except FileNotFoundError:
            if (self._proc / str(pid)).exists():
                self._refused["pss_bytes"] = "no /proc/PID/smaps_rollup: the kernel is before 4.14"
            return None
        except OSError:  # it is ending
            return None
        for line in text.splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
        return None

    def _row(self, pid: int, now: _Reading, pss: int | None) -> dict[str, Any]:
        before = self._before.get(pid)
        if before is not None and (before.started != now.started or before.t_ns >= now.t_ns):
            before = None
        seconds = (now.t_ns - before.t_ns) / 1e9 if before else None
        cores = None
        io: tuple[float | None, ...] = (None, None, None)
        if before is not None and seconds:
            cores = max(0, now.cpu_ticks - before.cpu_ticks) / self._ticks_per_s / seconds
            if now.io and before.io:
                io = tuple(max(0, n - b) / seconds for n, b in zip(now.io, before.io, strict=True))
        return {
            "t_ns": now.t_ns,
            "pid": pid,
            "cpu_cores": cores,
            # One that is ending has given its memory back already: that is no reading of it
            "rss_bytes": now.rss_pages * self._page or None,
            "pss_bytes": pss,
            "threads": now.threads,
            "read_bytes_per_s": io[1],
            "rchar_bytes_per_s": io[0],
            "write_bytes_per_s": io[2],
            "state": now.state,
        }
