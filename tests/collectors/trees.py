"""Recorded trees of /proc and /sys/fs/cgroup, of which a test changes what it is about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

S = 1_000_000_000


@dataclass(frozen=True)
class Layout:
    """A cgroup layout: what /proc says of it, and its files below /sys/fs/cgroup."""

    cgroup: str
    mounts: str
    files: dict[str, str]
    cpu: str  # folder of the CPU controller


V2 = Layout(
    cgroup="0::/kubepods/pod1/job\n",
    mounts="30 24 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
    files={
        "kubepods/pod1/cpu.max": "150000 100000\n",
        "kubepods/pod1/memory.max": f"{2**30}\n",
        "kubepods/pod1/job/cpu.max": "max 100000\n",
        "kubepods/pod1/job/memory.max": "max\n",
        "kubepods/pod1/job/memory.current": "400000000\n",
        "kubepods/pod1/job/memory.stat": "anon 300000000\ninactive_file 100000000\n",
        "kubepods/pod1/cpu.stat": "nr_periods 100\nnr_throttled 10\nthrottled_usec 9\n",
        "kubepods/pod1/job/cpu.stat": "usage_usec 5\n",
        "kubepods/pod1/job/io.stat": (
            "8:0 rbytes=1000 wbytes=500 rios=1 wios=1 dbytes=7 dios=1\n8:16 rbytes=24 wbytes=0\n"
        ),
    },
    cpu="kubepods/pod1",
)
V1 = Layout(
    cgroup="5:blkio:/docker/abc\n4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/\n",
    mounts=(
        "31 24 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "32 24 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "33 24 0:30 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n"
    ),
    files={
        "cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "150000\n",
        "cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000\n",
        "cpu,cpuacct/docker/abc/cpu.stat": "nr_periods 100\nnr_throttled 10\nthrottled_time 9\n",
        "memory/docker/abc/memory.limit_in_bytes": f"{2**30}\n",
        "memory/docker/abc/memory.usage_in_bytes": "400000000\n",
        "blkio/docker/abc/blkio.throttle.io_service_bytes": (
            "8:0 Read 1024\n8:0 Write 500\n8:0 Sync 1524\n8:0 Total 1524\nTotal 1524\n"
        ),
        "memory/docker/abc/memory.stat": "inactive_file 1\ntotal_inactive_file 100000000\n",
    },
    cpu="cpu,cpuacct/docker/abc",
)
PROC = {
    "stat": "cpu  1 0 1 10 0 0 0 0 0 0\ncpu0 1 0 1 10 0 0 0 0 0 0\n",
    "loadavg": "1.50 1.00 0.50 2/300 4242\n",
    "meminfo": "MemTotal:       16000000 kB\nMemFree:  1 kB\nMemAvailable:   12000000 kB\n",
    "diskstats": (
        " 8 0 sda 10 0 1000 0 10 0 1000 0 0 0 0\n 8 1 sda1 10 0 1000 0 10 0 1000 0 0 0 0\n"
    ),
    "net/dev": (
        "Inter-|   Receive    |  Transmit\n face |bytes packets errs drop fifo frame compressed\n"
        "    lo: 9999 9 0 0 0 0 0 0 9999 9 0 0 0 0 0 0\n"
        "  eth0: 1000 9 0 0 0 0 0 0 500 9 0 0 0 0 0 0\n"
        "docker0: 1000 9 0 0 0 0 0 0 500 9 0 0 0 0 0 0\n"
    ),
    "pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
    "pressure/io": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\nfull total=0\n",
    "pressure/memory": "some avg10=0.00 total=0\nfull total=0\n",
    "cpuinfo": (
        "processor\t: 0\nmodel name\t: AMD EPYC 7B13 64-Core Processor\nphysical id\t: 0\n"
        "core id\t\t: 0\nflags\t\t: fpu sse2 fma avx2 sha_ni\n\n"
    ),
}


def write_tree(root: Path, layout: Layout) -> Path:
    files = {f"proc/{name}": text for name, text in PROC.items()}
    files |= {f"sys/fs/cgroup/{name}": text for name, text in layout.files.items()}
    files["proc/self/cgroup"] = layout.cgroup
    files["proc/self/mountinfo"] = layout.mounts
    files["sys/block/sda/size"] = "1\n"
    files["dev/shm/x"] = ""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root
