"""The machine without a run: psutil for the host and its processes, NVML for NVIDIA GPUs."""

from __future__ import annotations

import contextlib
import platform
import time
from typing import Any

import psutil

from ..profiler.collectors.nvml_fields import COLUMNS
from ..profiler.collectors.nvml_sampling import Sampling
from .model import Accelerator, HostSnapshot, Machine, Process
from .samples import accelerator

MOST_PROCESSES = 40
_SAMPLE = ("t_ns", "device", *COLUMNS)
_ATTRIBUTES = [
    "pid",
    "name",
    "cmdline",
    "cpu_percent",
    "memory_info",
    "num_threads",
    "status",
    "username",
]


class HostFeed:
    """Snapshots of this host; rates are since the snapshot before."""

    def __init__(self) -> None:
        self._disk: tuple[float, int, int] | None = None
        self._nvml = Sampling()
        self._nvml.open(wait_s=0.0)  # goes on by itself: it may take a second a GPU
        psutil.cpu_percent(percpu=True)

    def snapshot(self) -> HostSnapshot:
        """The host now."""
        cores = tuple(percent / 100 for percent in psutil.cpu_percent(percpu=True))
        memory = psutil.virtual_memory()
        read, write = self._disk_rates()
        machine = Machine(
            accelerators=self._accelerators(),
            cores=cores,
            cpu=sum(cores) / len(cores) if cores else None,
            memory_used_bytes=memory.total - memory.available,
            memory_total_bytes=memory.total,
            read_bytes_per_s=read,
            write_bytes_per_s=write,
        )
        return HostSnapshot(platform.node(), machine, _processes())

    def _accelerators(self) -> tuple[Accelerator, ...]:
        rows = [row for table, row in self._nvml.sample(time.time_ns()) if table == "device_sample"]
        names = {card.device: card.name for card in self._nvml.cards}
        found = [dict(zip(_SAMPLE, row, strict=False)) for row in rows]
        return tuple(accelerator({**row, "name": names.get(row["device"])}) for row in found)

    def close(self) -> None:
        """Lets go of the driver."""
        self._nvml.close()

    def _disk_rates(self) -> tuple[float | None, float | None]:
        counters: Any = None
        with contextlib.suppress(OSError, RuntimeError):
            counters = psutil.disk_io_counters()
        if counters is None:
            return None, None
        now = time.monotonic(), counters.read_bytes, counters.write_bytes
        before, self._disk = self._disk, now
        if before is None or now[0] <= before[0]:
            return None, None
        seconds = now[0] - before[0]
        return (now[1] - before[1]) / seconds, (now[2] - before[2]) / seconds


def _processes() -> tuple[Process, ...]:
    found = [_process(item.info) for item in psutil.process_iter(_ATTRIBUTES)]
    found.sort(key=lambda process: (-(process.cpu_cores or 0.0), -(process.rss_bytes or 0)))
    return tuple(found[:MOST_PROCESSES])


def _process(info: dict[str, Any]) -> Process:
    memory = info.get("memory_info")
    percent = info.get("cpu_percent")
    return Process(
        pid=info["pid"],
        role=info.get("username") or "",
        command=" ".join(info.get("cmdline") or []) or info.get("name") or "",
        cpu_cores=percent / 100 if percent is not None else None,
        rss_bytes=memory.rss if memory else None,
        read_bytes_per_s=None,
        write_bytes_per_s=None,
        threads=info.get("num_threads"),
        state=info.get("status"),
    )
