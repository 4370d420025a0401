"""The host: cores, load, pressure, memory, disks, network, and the limits of the job's cgroup.

Everything is read from /proc, /sys and /dev below an injectable root; a sample costs about 0.2 ms
on a small machine. Shares and rates need two samples: the first row has none.
"""

from __future__ import annotations

import json
import os
import platform
import re
from pathlib import Path
from typing import Any

from ..host_limits import host_limits
from . import Collector, Gap, Row
from .cgroups import Cgroup
from .rapl import Packages

SECTOR_BYTES = 512  # of /proc/diskstats, whatever the disk
# Devices that only pass on what others do, or that no disk is behind
_NO_DISK = re.compile(r"(loop|ram|zram|dm-|md|sr|fd|nbd)\d*")
_NO_LINK = re.compile(r"(lo$|veth|docker|br-|virbr|cni|flannel|cali|tunl|bond|dummy)")
_PSI = ("cpu", "io", "memory")


class HostCollector(Collector):
    """Rows of host_sample."""

    name = "host"
    default_rate_hz = 2.0

    def __init__(self, *, root: Path = Path("/"), job: int | None = None) -> None:
        self._root, self._proc = root, root / "proc"
        self._job = job
        self._cgroup = Cgroup(root)
        self._packages = Packages(root)
        self._usable: frozenset[int] | None = None
        self._t_ns = 0
        self._cores: dict[int, tuple[int, int]] = {}  # core: busy, all ticks
        self._whole: tuple[int, int] | None = None  # iowait, all ticks
        self._psi: dict[str, int] = {}
        self._rates: dict[str, int] = {}
        self._killed: int | None = None

    def probe(self) -> list[Gap]:
        gaps = []
        if not any(self._pressure(name) is not None for name in _PSI):
            reason = (
                "no /proc/pressure: this kernel is older than 4.20, or it was started without psi=1"
            )
            gaps.append(Gap("psi", reason))
        cgroup = self._cgroup.read(0)
        if cgroup.memory_bytes is None:
            gaps.append(Gap("cgroup_memory_bytes", "no memory control group is mounted here"))
        if cgroup.disk_bytes is None:
            gaps.append(Gap("cgroup_disk.*", "no io control group lists a disk for this job yet"))
        for metric, name in (("disk", "diskstats"), ("net", "net/dev"), ("cpu", "stat")):
            if not _readable(self._proc / name):
                gaps.append(Gap(metric, f"/proc/{name} cannot be read"))
        return gaps + self._packages.gaps()

    def sample(self, t_ns: int) -> list[Row]:
        seconds = (t_ns - self._t_ns) / 1e9 if self._t_ns and t_ns > self._t_ns else None
        self._t_ns = t_ns
        cgroup = self._cgroup.read(t_ns)
        row: dict[str, Any] = {
            "t_ns": t_ns,
            **self._cpu(),
            "load_1m": self._load(),
            **{f"psi_{name}_share": self._psi_share(name, seconds) for name in _PSI},
            **self._memory(),
            **self._disk(seconds),
            **self._network(seconds),
            "cgroup_memory_bytes": cgroup.memory_bytes,
            "cgroup_memory_limit_bytes": cgroup.memory_limit_bytes,
            "cgroup_cpu_quota_cores": cgroup.quota_cores,
            "cgroup_throttled_share": cgroup.throttled_share,
            "cpu_power_w": self._packages.watts(seconds),
            **self._cgroup_disk(cgroup.disk_bytes, seconds),
        }
        return [("host_sample", row), *self._oom_kills(t_ns, cgroup.oom_kills)]

    def _oom_kills(self, t_ns: int, count: int | None) -> list[Row]:
        """An event when the kernel killed processes of the group for lack of memory."""
        before, self._killed = self._killed, count
        if count is None or before is None or count <= before:
            return []
        return [("event", (t_ns, "oom-kill", None, None, json.dumps({"count": count - before})))]

    # -- CPU ---------------------------------------------------------------------------------

    def _cpu(self) -> dict[str, Any]:
        """cpu_share is the mean of the cores that the job may run on."""
        shares: dict[int, float] = {}
        iowait = None
        for line in _lines(self._proc / "stat"):
            if not line.startswith("cpu"):
                break
            name, *fields = line.split()
            ticks = [int(field) for field in fields[:8]]
            if len(ticks) < 5:
                continue
            total, idle = sum(ticks), ticks[3] + ticks[4]
            if name == "cpu":
                if self._whole and total > self._whole[1]:
                    iowait = _share(ticks[4] - self._whole[0], total - self._whole[1])
                self._whole = ticks[4], total
                continue
            core = int(name[3:])
            before = self._cores.get(core)
            self._cores[core] = total - idle, total
            if before and total > before[1]:
                shares[core] = _share(total - idle - before[0], total - before[1])
        usable = self._usable_cores()
        mine = [share for core, share in shares.items() if usable is None or core in usable]
        return {
            "cpu_share": sum(mine) / len(mine) if mine else None,
            "cpu_core_share": [round(shares[core], 4) for core in sorted(shares)] or None,
            "iowait_share": iowait,
        }

    def _usable_cores(self) -> frozenset[int] | None:
        """The job's affinity mask, as it was when first asked; None: not known."""
        if self._usable is None and self._job is not None and self._root == Path("/"):
            try:
                self._usable = frozenset(os.sched_getaffinity(self._job))
            except OSError:
                self._job = None
        return self._usable

    def _load(self) -> float | None:
        try:
            return float((self._proc / "loadavg").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return None

    def _pressure(self, name: str) -> int | None:
        """Microseconds in which some task waited, since boot."""
        for line in _lines(self._proc / "pressure" / name):
            if line.startswith("some") and "total=" in line:
                return int(line.rpartition("total=")[2])
        return None

    def _psi_share(self, name: str, seconds: float | None) -> float | None:
        total = self._pressure(name)
        before = self._psi.get(name)
        if total is None:
            return None
        self._psi[name] = total
        if before is None or seconds is None:
            return None
        return _share(total - before, seconds * 1e6)

    # -- memory ------------------------------------------------------------------------------

    def _memory(self) -> dict[str, int | None]:
        found = {}
        for line in _lines(self._proc / "meminfo"):
            name, _, value = line.partition(":")
            if name in ("MemTotal", "MemAvailable"):
                found[name] = int(value.split()[0]) * 1024
            if len(found) == 2:
                break
        total, free = found.get("MemTotal"), found.get("MemAvailable")
        shm = self._shm()
        return {
            "memory_used_bytes": total - free if total is not None and free is not None else None,
            "memory_total_bytes": total,
            "shm_used_bytes": shm[0],
            "shm_total_bytes": shm[1],
        }

    def _shm(self) -> tuple[int | None, int | None]:
        try:
            disk = os.statvfs(self._root / "dev/shm")
        except OSError:
            return None, None
        return (disk.f_blocks - disk.f_bfree) * disk.f_frsize, disk.f_blocks * disk.f_frsize

    # -- disks and network -------------------------------------------------------------------

    def _disk(self, seconds: float | None) -> dict[str, float | None]:
        """Whole disks only: their partitions and what is stacked on them would count twice."""
        read = written = 0
        seen = False
        for line in _lines(self._proc / "diskstats"):
            fields = line.split()
            if len(fields) < 10 or _NO_DISK.match(fields[2]) or not self._is_whole(fields[2]):
                continue
            seen = True
            read += int(fields[5]) * SECTOR_BYTES
            written += int(fields[9]) * SECTOR_BYTES
        return {
            "disk_read_bytes_per_s": self._rate("read", read, seconds, seen),
            "disk_write_bytes_per_s": self._rate("written", written, seconds, seen),
        }

    def _cgroup_disk(
        self, done: tuple[int, int] | None, seconds: float | None
    ) -> dict[str, float | None]:
        read, written = done or (0, 0)
        seen = done is not None
        return {
            "cgroup_read_bytes_per_s": self._rate("cgroup read", read, seconds, seen),
            "cgroup_write_bytes_per_s": self._rate("cgroup written", written, seconds, seen),
        }

    def _is_whole(self, name: str) -> bool:
        block = self._root / "sys/block"
        if block.is_dir():
            return (block / name.replace("/", "!")).exists()
        return not re.fullmatch(r"([shv]d[a-z]+|xvd[a-z]+)\d+|(nvme\d+n\d+|mmcblk\d+)p\d+", name)

    def _network(self, seconds: float | None) -> dict[str, float | None]:
        received = sent = 0
        seen = False
        for line in _lines(self._proc / "net/dev"):
            name, colon, values = line.partition(":")
            fields = values.split()
            if not colon or len(fields) < 9 or _NO_LINK.match(name.strip()):
                continue
            seen = True
            received += int(fields[0])
            sent += int(fields[8])
        return {
            "net_rx_bytes_per_s": self._rate("received", received, seconds, seen),
            "net_tx_bytes_per_s": self._rate("sent", sent, seconds, seen),
        }

    def _rate(self, key: str, now: int, seconds: float | None, seen: bool) -> float | None:
        """Bytes a second since the last sample. A counter that went back (a device left): None."""
        before = self._rates.get(key)
        self._rates[key] = now
        if not seen or seconds is None or before is None or now < before:
            return None
        return (now - before) / seconds


def cpu_device(root: Path = Path("/")) -> dict[str, Any]:
    """A row of table `device` for a run whose device is the CPU."""
    limits = host_limits(root)
    about = _cpuinfo(root)
    memory = [x for x in (limits.memory_bytes, limits.cgroup_memory_limit_bytes) if x]
    return {
        "device": 0,
        "uuid": None,
        "name": about.pop("name") or platform.processor() or platform.machine() or "CPU",
        "kind": "cpu",
        "catalogue": None,
        "memory_bytes": min(memory, default=None),
        "details": {
            "cores_usable": limits.cpus_usable,
            "cores": limits.cpus_total,
            "machine": platform.machine(),
            **about,
        },
    }


def _cpuinfo(root: Path) -> dict[str, Any]:
    name, sockets, physical, flags = None, set(), set(), ""
    socket = core = ""
    for line in _lines(root / "proc/cpuinfo"):
        key, _, value = (part.strip() for part in line.partition(":"))
        if key in ("model name", "Model", "cpu model") and not name:
            name = value
        elif key == "physical id":
            socket = value
            sockets.add(value)
        elif key == "core id":
            core = value
            physical.add((socket, core))
        elif key in ("flags", "Features") and not flags:
            flags = f" {value} "
    simd = ("amx_tile", "avx512f", "avx512_bf16", "avx2", "fma", "sve", "asimd")
    return {
        "name": name,
        "sockets": len(sockets) or None,
        "cores_physical": len(physical) or None,
        "simd": [flag for flag in simd if f" {flag} " in flags],
    }


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def _readable(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            file.read(1)
    except OSError:
        return False
    return True


def _share(part: float, whole: float) -> float:
    """0..1; counters of the kernel may run back a little."""
    return min(1.0, max(0.0, part / whole)) if whole > 0 else 0.0
