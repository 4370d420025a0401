"""Memory at its limit: of the device, of the host's control group, and fragmented memory."""

from __future__ import annotations

from ...report import Evidence
from ..model import Clear, Judgement, RunView, Undecidable, evidence
from ..text import percent, size
from .common import unpriced

FULL = 0.95  # of the memory: the allocator then frees its cache and asks again (A65: 98 %)
FRAGMENTED = 0.20  # of what is reserved lies in split blocks that nothing fits into


def capacity(view: RunView) -> Judgement:
    """How near the run came to running out, on the device and on the host."""
    facts: list[Evidence] = []
    known = [d for d in view.used_devices if d.memory_peak_bytes and d.memory_total_bytes]
    for device in known:
        part = (device.memory_peak_bytes or 0) / (device.memory_total_bytes or 1)
        if part >= FULL:
            facts.append(evidence(
                f"{device.kind.upper()} {device.index} held {size(device.memory_peak_bytes or 0)} "
                f"of {size(device.memory_total_bytes or 0)} ({percent(part)})",
                "device_memory_part", part,
            ))  # fmt: skip
    limit = view.host.memory_limit_bytes or view.host.memory_total_bytes
    on_host = view.job.peak_bytes / limit if view.job.peak_bytes and limit else None
    if on_host is not None and limit and on_host >= FULL:
        facts.append(evidence(
            f"the job held {size(view.job.peak_bytes or 0)} of the host's {size(limit)}",
            "host_memory_part", on_host,
        ))  # fmt: skip
    if not facts:
        if on_host is None or (view.used_devices and not known):
            return Undecidable("memory of the device and of the job")
        return Clear()
    retries = view.allocator.get("retries")
    if retries:
        facts.append(evidence(f"the allocator ran out and freed its cache {retries:.0f} times",
                              "alloc_retries", retries))  # fmt: skip
    return unpriced("memory-capacity", "The memory is nearly full", facts, [
        "leave room: a smaller batch with gradient accumulation, bf16, or activation checkpointing "
        "(torch.utils.checkpoint); near the limit each allocation may stall",
    ], severity="critical" if retries else "warning")  # fmt: skip


def fragmentation(view: RunView) -> Judgement:
    """Reserved memory that lies in pieces: free in sum, too small each."""
    if view.on_cpu:
        return Clear()
    reserved, split = view.allocator.get("reserved"), view.allocator.get("inactive_split")
    if not reserved or split is None:
        return Undecidable("the counts of the device allocator")
    part, retries = split / reserved, view.allocator.get("retries", 0.0)
    if part < FRAGMENTED:
        return Clear()
    facts = [evidence(
        f"{size(split)} of {size(reserved)} reserved memory lies in split blocks without use",
        "inactive_split_part", part,
    )]  # fmt: skip
    if retries:
        facts.append(evidence(f"{retries:.0f} allocations had to free the cache first",
                              "alloc_retries", retries))  # fmt: skip
    return unpriced("fragmentation", "Device memory is fragmented", facts, [
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; and batches of few different shapes",
    ], severity="warning" if retries else "info")  # fmt: skip
