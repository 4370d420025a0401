"""The newest samples of machine and processes before a moment of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..profiler.diagnosis.hardware import THROTTLES
from ..storage.reader import RunReader
from .model import Accelerator, Machine, Process

STALE_NS = 5 * 10**9  # a sample older than this says nothing about the moment
MOST_PROCESSES = 200


def last_ns(reader: RunReader) -> int | None:
    """The time of the newest sample of all."""
    tables = ("host_sample", "process_sample", "device_sample")
    parts = ", ".join(f"(SELECT max(t_ns) FROM {table})" for table in tables)
    found = [t for t in reader.rows(f"SELECT {parts}")[0] if t is not None]
    return max(found, default=None)


_HOST = (  # fields of Machine after `cores`, in its order
    "cpu_share", "iowait_share", "memory_used_bytes", "memory_total_bytes",
    "disk_read_bytes_per_s", "disk_write_bytes_per_s", "load_1m", "psi_cpu_share",
    "psi_io_share", "psi_memory_share", "shm_used_bytes", "shm_total_bytes",
    "net_rx_bytes_per_s", "net_tx_bytes_per_s", "cgroup_cpu_quota_cores",
    "cgroup_throttled_share", "cgroup_memory_bytes", "cgroup_memory_limit_bytes",
)  # fmt: skip
_DEVICE = (
    "busy_share", "memory_busy_share", "memory_used_bytes", "memory_total_bytes", "power_w",
    "power_limit_w", "temperature_c", "throttle_bits", "sm_share", "tensor_share", "dram_share",
    "sm_clock_hz", "pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s", "pcie_generation", "pcie_width",
)  # fmt: skip


def machine(reader: RunReader, cursor_ns: int) -> Machine:
    """Host and accelerators."""
    rows = reader.rows(
        f"SELECT cpu_core_share, {', '.join(_HOST)} FROM host_sample "
        "WHERE t_ns BETWEEN ? AND ? ORDER BY t_ns DESC LIMIT 1",
        (cursor_ns - STALE_NS, cursor_ns),
    )
    accelerators = _accelerators(reader, cursor_ns)
    if not rows:
        return Machine(accelerators=accelerators)
    cores, *rest = rows[0]
    return Machine(accelerators, tuple(cores or ()), *rest)


def _accelerators(reader: RunReader, cursor_ns: int) -> tuple[Accelerator, ...]:
    newest = ", ".join(f"arg_max({name}, t_ns) AS {name}" for name in _DEVICE)
    rows = reader.dicts(
        "SELECT d.device, d.name, d.kind, s.* EXCLUDE (device) FROM device d LEFT JOIN ("
        f"  SELECT device, {newest} FROM device_sample WHERE t_ns BETWEEN ? AND ? GROUP BY device"
        ") s ON s.device = d.device WHERE d.kind IN ('gpu', 'tpu') ORDER BY d.device",
        (cursor_ns - STALE_NS, cursor_ns),
    )
    return tuple(accelerator(row) for row in rows)


def accelerator(row: Mapping[str, Any]) -> Accelerator:
    """From the columns of device_sample with `device`, `name` and, where known, `kind`."""
    generation, width = row["pcie_generation"], row["pcie_width"]
    return Accelerator(
        index=row["device"], name=row["name"] or "", busy=row["busy_share"],
        memory_busy=row["memory_busy_share"], memory_used_bytes=row["memory_used_bytes"],
        memory_total_bytes=row["memory_total_bytes"], power_w=row["power_w"],
        power_limit_w=row["power_limit_w"], temperature_c=row["temperature_c"],
        throttle=_slowed_by(row["throttle_bits"]), kind=row.get("kind") or "gpu",
        sm=row["sm_share"], tensor=row["tensor_share"], dram=row["dram_share"],
        sm_clock_hz=row["sm_clock_hz"], pcie_rx_bytes_per_s=row["pcie_rx_bytes_per_s"],
        pcie_tx_bytes_per_s=row["pcie_tx_bytes_per_s"],
        link=f"PCIe {generation} x{width}" if generation and width else None,
    )  # fmt: skip


def _slowed_by(bits: int | None) -> tuple[str, ...] | None:
    """The reasons that the diagnosis counts as throttling."""
    if bits is None:
        return None
    return tuple(name for name, mask in THROTTLES.items() if bits & mask)


def processes(reader: RunReader, cursor_ns: int) -> tuple[Process, ...]:
    """The job's processes that were sampled lately; ranks first, then workers."""
    rows = reader.dicts(
        "SELECT s.*, p.role, p.rank, p.worker, p.command FROM ("
        "  SELECT pid, arg_max(cpu_cores, t_ns) AS cpu_cores, arg_max(rss_bytes, t_ns) AS rss, "
        "  arg_max(read_bytes_per_s, t_ns) AS read, arg_max(write_bytes_per_s, t_ns) AS write, "
        "  arg_max(threads, t_ns) AS threads, arg_max(state, t_ns) AS state "
        "  FROM process_sample WHERE t_ns BETWEEN ? AND ? GROUP BY pid"
        ") s LEFT JOIN (SELECT pid, any_value(role) AS role, any_value(rank) AS rank, "
        "  any_value(worker) AS worker, any_value(command) AS command FROM process GROUP BY pid"
        f") p ON p.pid = s.pid LIMIT {MOST_PROCESSES}",
        (cursor_ns - STALE_NS, cursor_ns),
    )
    return tuple(_process(row) for row in sorted(rows, key=_order))


_ROLES = ("main", "rank", "worker", "launcher")


def _order(row: dict[str, Any]) -> tuple[int, int, int, int]:
    role = row["role"] if row["role"] in _ROLES else ""
    at = _ROLES.index(role) if role else len(_ROLES)
    number = row["rank"] if role == "rank" else row["worker"]
    return (
        at,
        number if number is not None else -1,
        -round((row["cpu_cores"] or 0) * 10),
        row["pid"],
    )


def _process(row: dict[str, Any]) -> Process:
    role = row["role"] or "other"
    number = {"rank": row["rank"], "worker": row["worker"]}.get(role)
    return Process(
        pid=row["pid"],
        role=f"{role} {number}" if number is not None else role,
        command=row["command"] or "",
        cpu_cores=row["cpu_cores"],
        rss_bytes=row["rss"],
        read_bytes_per_s=row["read"],
        write_bytes_per_s=row["write"],
        threads=row["threads"],
        state=row["state"],
    )
