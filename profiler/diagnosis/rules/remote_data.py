"""Batches wait for a remote store: the network is in the loop."""

from __future__ import annotations

from ..capacity import Capacity, advice, capacity, promise, waits
from ..model import Clear, Judgement, RunView, Undecidable, evidence
from ..text import percent, size
from .common import WORTH, finding, hot_places, input_facts

# Of the samples that make batches: a third in a socket is more than a metadata request now and then
IN_NETWORK = 0.33
# Of what the workers read, received by the host and not read from a disk
FROM_NETWORK = 0.5


def judge(view: RunView) -> Judgement:
    share = view.shares.get("input", 0.0)
    if share < WORTH:
        return Clear()
    made = view.workers
    if made is not None and made.cpu_s is not None and not waits(view, made.cpu_s, made.fetch_s):
        return Clear()  # the CPU is the limit, wherever the bytes come from
    seen = view.worker_stacks if view.worker_stacks.samples else view.stacks
    part = _in_network(view)
    if part is None and _received(view) is None:
        return Undecidable("stacks or network counters of the making of a batch")
    facts = []
    if part is not None and part >= IN_NETWORK:
        facts.append(evidence(
            f"{percent(part)} of the samples that make a batch stand in network code",
            "network_stack_share", part,
        ))  # fmt: skip
    received = _received(view)
    if received is not None and received[1] >= FROM_NETWORK:
        facts.append(evidence(
            f"the host receives {size(received[0])}/s, {percent(min(1.0, received[1]))} of what "
            "the workers read", "net_rx_bytes_per_s", received[0], "B/s",
        ))  # fmt: skip
    if not facts:
        return Clear()
    room = capacity(view)
    places = hot_places(view, "input") if seen is view.stacks else []
    return finding(
        "remote-data", share, "Batches wait for data from the network",
        input_facts(view) + facts + places, _lines(view, room), limit=promise(view, room),
    )  # fmt: skip


def _in_network(view: RunView) -> float | None:
    """Of the samples in the making of batches, those in network code."""
    if view.worker_stacks.samples:
        return view.worker_stacks.remote
    making = view.stacks.shares.get("loader", 0.0) + view.stacks.shares.get("input", 0.0)
    if not view.stacks.samples or making <= 0:
        return None
    return min(1.0, view.stacks.remote / making)


def _received(view: RunView) -> tuple[float, float] | None:
    """(bytes/s received, part of what the workers read); None when nothing tells."""
    made, rate = view.workers, view.host.received_bytes_per_s
    if made is None or not made.read_bytes_per_s or rate is None or made.disk_bytes_per_s is None:
        return None
    from_disk = min(made.disk_bytes_per_s, made.read_bytes_per_s)
    if made.read_bytes_per_s < 1e6 or from_disk > 0.1 * made.read_bytes_per_s:
        return rate, 0.0  # little is read, or a disk gives it
    return rate, rate / made.read_bytes_per_s


def _lines(view: RunView, room: Capacity | None) -> list[str]:
    lines = advice(view, room) if room is not None and room.helps else []
    return [
        *lines,
        "or bring the data nearer: a local copy on NVMe, large shards read in order (webdataset, "
        "MosaicML streaming) with a local cache; requests in flight hide latency, so more workers "
        "than cores still help",
    ]  # fmt: skip
