"""Limits of the machine or the container that the job ran into."""

from __future__ import annotations

from ..model import Clear, Judgement, RunView, Undecidable, evidence
from ..text import many, percent, size
from .common import finding

THROTTLED = 0.10  # of the samples
QUOTA_THROTTLED = 0.05  # of the time
IDLE = 0.05
SHM_FULL, SHM_SMALL = 0.90, 1 << 30


def throttled(view: RunView) -> Judgement:
    share = view.device.throttled_share
    if view.on_cpu:
        return Clear()
    if share is None:
        return Undecidable("throttle reasons of the device")
    if share < THROTTLED:
        return Clear()
    facts = [evidence(f"a power or thermal limit held the clock in {percent(share)} of samples",
                      "throttled_share", share)]  # fmt: skip
    return finding("throttled", share, "The device is slowed by power or heat", facts,
                   ["raise the power limit or improve cooling; a lower clock is not seen in "
                    "utilisation"], limit=1.0)  # fmt: skip


def idle_device(view: RunView) -> Judgement:
    busy = view.device.busy_share
    if view.on_cpu:
        return Clear()
    if busy is None:
        return Undecidable("utilisation of the device")
    if busy >= IDLE:
        return _some_idle(view)
    facts = [
        evidence(f"{view.device.name} is busy {percent(busy)} of the time", "device_busy", busy)
    ]
    return finding("idle-device", 1.0 - busy, "The device is almost idle", facts,
                   ["check that the model and its batches are on the device"])  # fmt: skip


def _some_idle(view: RunView) -> Judgement:
    """In a log of all devices. Of a job under accelprof only those that it uses are counted."""
    use = view.device
    if not (view.imported and use.idle):
        return Clear()
    names = ", ".join(f"gpu {number}" for number in use.idle[:8])
    text = f"{len(use.idle)} of {many(use.listed, 'device')} never worked: {names}"
    return finding("idle-device", len(use.idle) / use.listed, "Some devices are idle",
                   [evidence(text, "idle_devices", len(use.idle))],
                   ["use them, or ask for fewer devices"])  # fmt: skip


def cpu_limit(view: RunView) -> Judgement:
    quota, slowed = view.host.quota_cores, view.host.throttled_share
    if quota is None:
        return Clear()
    if slowed is None:
        return Undecidable("throttled time of the cgroup")
    if slowed < QUOTA_THROTTLED:
        return Clear()
    facts = [evidence(
        f"the CPU quota of {quota:.1f} cores stopped the job {percent(slowed)} of the time",
        "throttled_share", slowed,
    )]  # fmt: skip
    return finding("cpu-limit", slowed, "The container's CPU quota slows the job", facts,
                   [f"raise the quota above {quota:.1f} cores, or use at most {max(1, int(quota))} "
                    "threads and workers together"])  # fmt: skip


def shm(view: RunView) -> Judgement:
    total, peak = view.host.shm_total_bytes, view.host.shm_used_peak_share
    uses_workers = view.workers is not None and not view.workers.in_process
    if not uses_workers:
        return Clear()
    if total is None:
        return Undecidable("size of /dev/shm")
    full = peak is not None and peak >= SHM_FULL
    if total >= SHM_SMALL and not full:
        return Clear()
    facts = [evidence(f"/dev/shm has {size(total)}", "shm_total_bytes", total, "B")]
    if peak is not None:
        facts.append(evidence(f"{percent(peak)} of it was used", "shm_peak_share", peak))
    found = finding("shm-small", 0.1, "/dev/shm is small for loader workers", facts,
                    ["docker run --shm-size=8g (or --ipc=host): a full /dev/shm kills workers with "
                     "SIGBUS"], limit=1.0)  # fmt: skip
    found.severity = "critical" if full else "warning"
    return found


def worker_died(view: RunView) -> Judgement:
    if not view.job.workers_died:
        return Clear()
    how = ", ".join(dict.fromkeys(view.job.workers_died))
    count = len(view.job.workers_died)
    facts = [evidence(f"{count} loader worker(s) died: {how}", "workers_died", count)]
    return finding(
        "worker-died",
        1.0,
        "A loader worker died",
        facts,
        ["SIGKILL points to the out-of-memory killer, SIGBUS to a full /dev/shm"],
        limit=1.0,
    )
