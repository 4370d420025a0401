"""Who uses a device: NVML's process list, and whether a process is the job's.

NVML gives PIDs of the host. In a PID namespace they match nothing, or by chance the wrong process:
there, nothing is said about others. Load is called foreign only when it is certain.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .nvml_driver import TRY_OLDER, Missing, explain
from .nvml_fields import SENTINELS, Handle

INSUFFICIENT_SIZE = 7
INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # fixed in the kernel (PROC_PID_INIT_INO)


@dataclass(frozen=True, slots=True)
class Use:
    """One process on one device. `ours`: of the job's tree; None: cannot be told."""

    pid: int
    memory_bytes: int | None
    ours: bool | None = None


class _ProcessV1(ctypes.Structure):
    _fields_ = (("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong))


def read_processes(nvml: Any, handle: Handle) -> list[Use] | Missing:
    """The compute processes of a device, by whichever version of the call the driver has."""
    missing: Missing | None = None
    for read in (_v3, _v2, _v1):
        try:
            return [Use(pid, _bytes(used)) for pid, used in read(nvml, handle)]
        except Exception as error:
            missing = missing or explain(error)
            if explain(error).code not in (*TRY_OLDER, None):
                return explain(error)
    return missing or Missing("no process list")


def _v3(nvml: Any, handle: Handle) -> Iterable[tuple[int, int | None]]:
    rows = nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
    return [(row.pid, row.usedGpuMemory) for row in rows]


def _v2(nvml: Any, handle: Handle) -> Iterable[tuple[int, int | None]]:
    rows = nvml.nvmlDeviceGetComputeRunningProcesses_v2(handle)
    return [(row.pid, row.usedGpuMemory) for row in rows]


def _v1(nvml: Any, handle: Handle) -> Iterable[tuple[int, int | None]]:
    """The bindings dropped this version; its rows are shorter."""
    function = nvml._nvmlGetFunctionPointer("nvmlDeviceGetComputeRunningProcesses")
    count = ctypes.c_uint(0)
    code = function(handle, ctypes.byref(count), None)
    if code == 0:
        return []
    if code != INSUFFICIENT_SIZE:
        raise nvml.NVMLError(code)
    count.value += 8  # room for those that start in between
    rows = (_ProcessV1 * count.value)()
    code = function(handle, ctypes.byref(count), rows)
    if code:
        raise nvml.NVMLError(code)
    return [(row.pid, row.used) for row in rows[: count.value]]


def _bytes(used: int | None) -> int | None:
    return None if used is None or used in SENTINELS else used


def in_initial_namespace(root: Path = Path("/")) -> bool:
    """True only when our PIDs are surely those of the host."""
    try:
        return str((root / "proc/self/ns/pid").readlink()) == INITIAL_PID_NAMESPACE
    except OSError:
        return False


def start_ticks(pid: int, root: Path = Path("/")) -> int | None:
    """When a process started, in clock ticks since boot; None when it cannot be read."""
    try:
        stat = (root / "proc" / str(pid) / "stat").read_text("ascii", "replace")
        return int(stat.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


@dataclass(frozen=True, slots=True)
class Attribution:
    """`known`: whose every process is stands fast. Else `reason` says why it does not."""

    uses: tuple[Use, ...]
    known: bool
    reason: str | None = None


def attribute(
    uses: Iterable[Use],
    tree: Collection[int],
    *,
    host_pids: bool,
    job_start_ticks: int | None,
    started: Callable[[int], int | None],
) -> Attribution:
    """Says of each process whether it is the job's.

    `host_pids`: our PIDs are the host's. `started` gives a process's start (ticks since boot): one
    that ran before the job is not the job's; one that came later may be its child by another way
    (a container runtime, a scheduler's step daemon).
    """
    if not host_pids:
        rows = tuple(Use(use.pid, use.memory_bytes) for use in uses)
        if rows and all(use.pid in tree for use in rows):
            return Attribution(tuple(Use(u.pid, u.memory_bytes, True) for u in rows), True)
        why = "cannot attribute: PID namespace (the driver gives PIDs of the host)"
        return Attribution(rows, not rows, why if rows else None)
    rows = tuple(
        Use(use.pid, use.memory_bytes, _whose(use.pid, tree, job_start_ticks, started))
        for use in uses
    )
    unsure = [use.pid for use in rows if use.ours is None]
    reason = f"cannot attribute PID {unsure[0]}: not in the job's tree" if unsure else None
    return Attribution(rows, not unsure, reason)


def _whose(
    pid: int,
    tree: Collection[int],
    job_start_ticks: int | None,
    started: Callable[[int], int | None],
) -> bool | None:
    if pid in tree:
        return True
    began = started(pid)
    if began is None or job_start_ticks is None:
        return None
    return False if began < job_start_ticks else None
