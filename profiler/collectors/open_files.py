"""Where the files lie that the job reads: mount and kind of file system.

Loader workers open and close files all the time, so a look finds those open at that moment; each
mount is told once, as an event `reads-from`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from . import Collector, Row, Target

MOST_PROCESSES, MOST_FILES, MOST_MOUNTS = 4, 256, 16  # a look; MOUNTS: told in a run
# Kinds whose files lie on another machine or in an object store
REMOTE = re.compile(
    r"nfs\d?|cifs|smb\w*|ceph|lustre|gpfs|beegfs|glusterfs|9p|virtiofs|wekafs|orangefs|afs"
    r"|fuse(\.\w+)?"
)
# What every Python has open beside its data
_OTHERS = re.compile(r"^/(proc|sys|dev|run)/|/(site|dist)-packages/|/lib/python|\.(so|py|pyc)\b")
_ESCAPE = re.compile(r"\\(\d{3})")


class Mount(NamedTuple):
    """A line of /proc/PID/mountinfo."""

    point: str
    kind: str
    source: str


class OpenFileCollector(Collector):
    """Events `reads-from`: mount, type, source, remote, and one file as an example."""

    name = "files"
    default_rate_hz = 0.5

    def __init__(
        self, targets: Callable[[], Sequence[Target]], *, root: Path = Path("/")
    ) -> None:  # fmt: skip
        self._targets = targets
        self._proc = root / "proc"
        self._told: set[str] = set()
        self._turn = 0

    def sample(self, t_ns: int) -> list[Row]:
        rows: list[Row] = []
        for pid in self._next_pids():
            files = self._read_only(pid)
            mounts = self._mounts(pid) if files else []
            for file in files:
                found = holding(file, mounts)
                if found is None or found.point in self._told or len(self._told) >= MOST_MOUNTS:
                    continue
                self._told.add(found.point)
                data = {
                    "mount": found.point, "type": found.kind, "source": found.source[:200],
                    "remote": REMOTE.fullmatch(found.kind) is not None, "file": file[:300],
                }  # fmt: skip
                rows.append(("event", (t_ns, "reads-from", pid, None, json.dumps(data))))
        return rows

    def _next_pids(self) -> list[int]:
        """Workers where there are some, else the processes that train; a few, in turn."""
        known = list(self._targets())
        pids = [t.pid for t in known if t.worker is not None] or [t.pid for t in known]
        if not pids:
            return []
        self._turn = (self._turn + MOST_PROCESSES) % len(pids)
        return (pids[self._turn :] + pids[: self._turn])[:MOST_PROCESSES]

    def _read_only(self, pid: int) -> list[str]:
        """Files that the process has open to read; none of one that may not be looked at."""
        folder = self._proc / str(pid)
        found: list[str] = []
        try:
            numbers = os.listdir(folder / "fd")[:MOST_FILES]  # noqa: PTH208 - names are enough
        except OSError:
            return []
        for number in numbers:
            try:
                path = os.readlink(folder / "fd" / number)  # noqa: PTH115
                if path[:1] != "/" or number in ("0", "1", "2") or _OTHERS.search(path):
                    continue
                flags = (folder / "fdinfo" / number).read_text().partition("flags:")[2].split()
                if int(flags[0], 8) & os.O_ACCMODE != os.O_WRONLY:
                    found.append(path.removesuffix(" (deleted)"))
            except (OSError, ValueError, IndexError):
                continue
        return found

    def _mounts(self, pid: int) -> list[Mount]:
        try:
            text = (self._proc / str(pid) / "mountinfo").read_text("utf-8", "surrogateescape")
        except OSError:
            return []
        return mounts(text)


def mounts(text: str) -> list[Mount]:
    """The mounts of a mountinfo file; lines that are none are left out."""
    found = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if len(fields) >= 5 and len(kind) >= 2:
            found.append(Mount(_plain(fields[4]), kind[0], _plain(kind[1])))
    return found


def holding(file: str, known: Sequence[Mount]) -> Mount | None:
    """The mount that a file lies on: the longest that begins its path, of those the last one."""
    best: Mount | None = None
    for mount in known:
        inside = mount.point in ("/", file) or file.startswith(mount.point + "/")
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def _plain(field: str) -> str:
    r"""A field without its escapes: a blank is \040."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)), field)
