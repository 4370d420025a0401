"""Limits of the machine or the container that the job ran into."""

from __future__ import annotations

from ..model import Clear, Judgement, RunView, Undecidable, evidence
from ..text import many, percent, size
from .common import finding

QUOTA_THROTTLED = 0.05  # of the time
SHM_FULL, SHM_SMALL = 0.90, 1 << 30


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
    """As the loader told it in the training process, or as it was seen from outside."""
    told = [str(f.get("text")) for f in view.failures if f.get("what") == "worker"]
    how = list(view.job.workers_died)
    if not told and not how:
        if not any((x.num_workers or 0) > 0 for x in view.loaders):
            return Clear()
        hooked = view.observed or view.steps
        return Clear() if hooked else Undecidable("the loader's own errors")
    count = max(len(told), len(how))
    named = ": " + ", ".join(dict.fromkeys(how)) if how else ""
    facts = [evidence(f"{many(count, 'loader worker')} died{named}", "workers_died", count)]
    facts += [evidence(text[:160], "error", text[:160]) for text in told[:1]]
    words = " ".join(told + how)
    if "Bus" in words or "SIGBUS" in words:
        lines = ["a full /dev/shm: docker run --shm-size=8g or --ipc=host"]
    elif "Kill" in words or "SIGKILL" in words:
        lines = ["most likely the out-of-memory killer: fewer workers, a smaller prefetch_factor"]
    else:
        lines = ["run once with num_workers=0: the error then shows in the training process"]
    result = finding("worker-died", 1.0, "A loader worker died", facts, lines)
    result.severity, result.speedup_limit = "critical", None
    return result
