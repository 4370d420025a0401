"""The job's control group: CPU quota and throttling, memory, disks. cgroup v1, v2 and both."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from ..host_limits import cgroup_folders, host_limits

LIMITS_EVERY_NS = 10_000_000_000
V1_IO = "blkio.throttle.io_service_bytes"
# A line a device: v2 `8:0 rbytes=1 wbytes=2 rios=..`, v1 `8:0 Read 1` and `8:0 Write 2`
_READ, _WRITTEN = re.compile(r" (?:rbytes=|Read )(\d+)"), re.compile(r" (?:wbytes=|Write )(\d+)")


class CgroupReading(NamedTuple):
    """None: no limit, or no such file."""

    quota_cores: float | None
    throttled_share: float | None  # of the enforcement periods since the last reading
    memory_bytes: int | None  # without page cache that can be dropped at once
    memory_limit_bytes: int | None
    oom_kills: int | None = None  # processes of the group that the kernel killed so far
    disk_bytes: tuple[int, int] | None = None  # read and written by the group so far


class Cgroup:
    """Reads the group that this process and so the job is in."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._cpu = [f for f in cgroup_folders(root, "cpu") if (f / "cpu.stat").exists()]
        self._memory = next(
            (
                (folder, name)
                for folder in cgroup_folders(root, "memory")
                for name in ("memory.current", "memory.usage_in_bytes")
                if (folder / name).exists()
            ),
            None,
        )
        self._io = next(
            (
                folder / name
                for controller, name in (("io", "io.stat"), ("blkio", V1_IO))
                for folder in cgroup_folders(root, controller)
                if (folder / name).exists()
            ),
            None,
        )
        self._periods: dict[Path, tuple[int, int]] = {}
        self._limits = host_limits(root)
        self._limits_due_ns = 0

    def read(self, t_ns: int) -> CgroupReading:
        if t_ns >= self._limits_due_ns:
            self._limits = host_limits(self._root)
            self._limits_due_ns = t_ns + LIMITS_EVERY_NS
        quota = self._limits.cgroup_cpu_quota
        return CgroupReading(
            quota, self._throttled() if quota else None, self._used(),
            self._limits.cgroup_memory_limit_bytes, self._oom_kills(), self._disk_bytes(),
        )  # fmt: skip

    def _oom_kills(self) -> int | None:
        """v2 counts in memory.events, v1 in memory.oom_control (Linux 4.13 and later)."""
        if self._memory is None:
            return None
        for name in ("memory.events", "memory.oom_control"):
            if (count := read_pairs(self._memory[0] / name).get("oom_kill")) is not None:
                return count
        return None

    def _disk_bytes(self) -> tuple[int, int] | None:
        """Of all devices; what the page cache answers is not in it.

        None while no device is listed: the group used none yet, or nothing counts for it.
        """
        try:
            text = self._io.read_text("ascii", "replace") if self._io else None
        except OSError:
            return None
        if text is None or ":" not in text:
            return None
        return sum(map(int, _READ.findall(text))), sum(map(int, _WRITTEN.findall(text)))

    def _throttled(self) -> float | None:
        """The worst of the groups from this process's to the root."""
        shares = []
        for folder in self._cpu:
            stat = read_pairs(folder / "cpu.stat")
            if "nr_periods" not in stat:
                continue
            now = stat["nr_periods"], stat.get("nr_throttled", 0)
            before = self._periods.get(folder)
            self._periods[folder] = now
            if before is not None:
                periods, throttled = now[0] - before[0], now[1] - before[1]
                shares.append(min(1.0, max(0, throttled) / periods) if periods > 0 else 0.0)
        return max(shares, default=None)

    def _used(self) -> int | None:
        if self._memory is None:
            return None
        folder, name = self._memory
        try:
            used = int((folder / name).read_text())
        except (OSError, ValueError):
            return None
        stat = read_pairs(folder / "memory.stat")
        idle = stat.get("total_inactive_file", stat.get("inactive_file", 0))
        return max(0, used - idle)


def read_pairs(path: Path) -> dict[str, int]:
    """A file of lines `name number`; empty when it cannot be read."""
    try:
        text = path.read_text("ascii", "replace")
    except OSError:
        return {}
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if value.isdigit():
            found[name] = int(value)
    return found
