"""What this process may use of the host: cores by affinity, cpuset and quota; memory by cgroup.

Read from /proc and /sys below an injectable root; cgroup v1, v2 and both side by side.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

UNLIMITED_V1 = 2**62  # v1 writes "no limit" as a number near 2^63


@dataclass(frozen=True, slots=True)
class HostLimits:
    """Limits in cores and bytes; None: none, or not readable."""

    cpus_total: int
    cpus_affinity: int
    cpus_cpuset: int | None
    cgroup_cpu_quota: float | None  # cores
    memory_bytes: int | None
    cgroup_memory_limit_bytes: int | None
    shm_bytes: int | None

    @property
    def cpus_usable(self) -> float:
        """The least of affinity, cpuset and quota; a fraction when the quota decides."""
        limits = [float(self.cpus_affinity)]
        limits += [float(x) for x in (self.cpus_cpuset, self.cgroup_cpu_quota) if x]
        return min(limits)


def host_limits(root: Path = Path("/"), *, affinity: int | None = None) -> HostLimits:
    """`affinity`: the cores in this process's mask, when other than the kernel's answer."""
    mine = affinity if affinity is not None else len(os.sched_getaffinity(0))
    cpuset = next(
        (
            n
            for folder in cgroup_folders(root, "cpuset")
            for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
            if (n := count_cpus(_read(folder / name)))
        ),
        None,
    )
    quotas = [q for folder in cgroup_folders(root, "cpu") if (q := _quota(folder)) is not None]
    memory = [m for folder in cgroup_folders(root, "memory") if (m := _memory(folder)) is not None]
    return HostLimits(
        cpus_total=os.cpu_count() or mine,
        cpus_affinity=mine,
        cpus_cpuset=cpuset,
        cgroup_cpu_quota=min(quotas, default=None),
        memory_bytes=_total_memory(root),
        cgroup_memory_limit_bytes=min(memory, default=None),
        shm_bytes=_shm(root),
    )


def count_cpus(text: str | None) -> int | None:
    """How many cores a list such as "0-3,8" names."""
    if not text:
        return None
    count = 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            return None
        count += int(last or first) - int(first) + 1
    return count


def cgroup_folders(root: Path, controller: str) -> Iterator[Path]:
    """This process's cgroup folders for a controller, innermost first, up to the mount."""
    own: dict[str, str] = {}
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        _, names, group = [*line.split(":", 2), "", ""][:3]
        for name in names.split(","):
            own[name] = group
    for line in (_read(root / "proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2":
            path = own.get("")
        elif kind[0] == "cgroup" and controller in kind[2].split(","):
            path = own.get(controller)
        else:
            continue
        if path is not None:
            yield from _upwards(root / fields[4].lstrip("/"), fields[3], path)


def _upwards(mount: Path, mounted: str, path: str) -> Iterator[Path]:
    """From the process's own group to the mount. A container sees its group as the mount's root."""
    inner = path.removeprefix(mounted) if mounted != "/" else path
    folder = mount / inner.strip("/")
    if not folder.is_dir() or ".." in inner:
        folder = mount
    while True:
        yield folder
        if folder == mount:
            return
        folder = folder.parent


def _quota(folder: Path) -> float | None:
    """Cores per second that the group may burn."""
    words = (_read(folder / "cpu.max") or "").split()
    if not words:
        words = [
            _read(folder / "cpu.cfs_quota_us") or "",
            _read(folder / "cpu.cfs_period_us") or "",
        ]
    try:
        quota, period = int(words[0]), int(words[1])
    except (ValueError, IndexError):  # "max"
        return None
    return quota / period if quota > 0 and period > 0 else None


def _memory(folder: Path) -> int | None:
    text = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes") or ""
    return int(text) if text.isdigit() and int(text) < UNLIMITED_V1 else None


def _total_memory(root: Path) -> int | None:
    for line in (_read(root / "proc/meminfo") or "").splitlines():
        words = line.split()
        if words and words[0] == "MemTotal:":
            return int(words[1]) * 1024
    return None


def _shm(root: Path) -> int | None:
    try:
        stat = os.statvfs(root / "dev/shm")
    except OSError:
        return None
    return stat.f_frsize * stat.f_blocks


def _read(path: Path) -> str | None:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return None
