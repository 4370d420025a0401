"""Copies between host and device that the step waits for."""

from __future__ import annotations

from ..model import Clear, Judgement, RunView, Undecidable, evidence, speedup_limit
from ..text import many, percent, size
from .common import WORTH, finding

MOSTLY = 0.5
MANY, SMALL_BYTES = 20, 1 << 20  # copies a step; mean size under which the call, not the bus, costs


def _copied(view: RunView) -> float | None:
    """The share of exposed copies when it is worth a word; None when there is nothing to judge."""
    share = view.shares.get("transfer", 0.0)
    return share if share >= WORTH and not view.on_cpu else None


def unpinned(view: RunView) -> Judgement:
    """Copies from pageable memory go through a staging buffer, and the host waits for them."""
    share = _copied(view)
    if share is None:
        return Clear()
    into = view.copies.get("HtoD")
    pinned = view.loader.pinned if view.loader is not None else None
    if into is None and pinned is None:
        return Undecidable("whether the copied memory is pinned")
    if into is not None and into.calls:
        if into.pageable < MOSTLY:
            return Clear()
        facts = [evidence(f"{percent(into.pageable)} of the captured copies to the device come "
                          "from pageable memory", "pageable_share", into.pageable)]  # fmt: skip
        if into.seconds > 0:
            rate = into.bytes / into.seconds
            facts.append(evidence(f"they reach {size(rate)}/s", "copy_bytes_per_s", rate, "B/s"))
    elif pinned is False:
        facts = [evidence("the DataLoader does not pin its batches (pin_memory=False)",
                          "pin_memory", 0)]  # fmt: skip
    else:
        return Clear()
    facts.append(evidence(f"copies take {percent(share)} of the time", "transfer_share", share))
    where = f" ({view.loader.where})" if view.loader and view.loader.where else ""
    return finding(
        "unpinned", share, "Copies to the device come from pageable memory", facts,
        [f"DataLoader(..., pin_memory=True){where} and batch.to(device, non_blocking=True): the "
         "copy then runs beside the step before it"],
        limit=speedup_limit(share),
    )  # fmt: skip


def too_often(view: RunView) -> Judgement:
    """Many small copies: each costs a call and, unpinned, a wait."""
    share = _copied(view)
    if share is None:
        return Clear()
    if not view.copies:
        return Undecidable("captured copies")
    calls = sum(c.calls for c in view.copies.values())
    moved = sum(c.bytes for c in view.copies.values())
    if calls < MANY or moved / calls > SMALL_BYTES:
        return Clear()
    facts = [
        evidence(f"{many(calls, 'copy', 'copies')} a step of {size(moved / calls)} each",
                 "copies_per_step", calls),
        evidence(f"copies take {percent(share)} of the time", "transfer_share", share),
    ]  # fmt: skip
    return finding(
        "too-often", share, "Many small copies between host and device", facts,
        ["make tensors on the device (torch.arange(..., device=device)), put small ones together "
         "into one copy, and read results every 50 steps"],
        limit=speedup_limit(share),
    )  # fmt: skip
