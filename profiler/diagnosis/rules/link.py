"""A PCIe link below what card and slot can do: only under load, for it rests at generation 1."""

from __future__ import annotations

from ..hardware import Accelerator
from ..model import Clear, Judgement, RunView, Undecidable, evidence, speedup_limit
from ..text import percent
from .common import finding

ENOUGH = 20  # readings under load: 2 s of them
# Usable GB/s of one lane by generation (PCI-SIG rates after line coding)
LANE_GB_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}


def judge(view: RunView) -> Judgement:
    if view.on_cpu:
        return Clear()
    known = [d for d in view.used_devices if d.link is not None and d.link_samples >= ENOUGH]
    if not known:
        return Undecidable("the state of the link under load")
    worst = min(known, key=_part)
    part = _part(worst)
    if part >= 1.0:
        return Clear()
    assert worst.link is not None
    now, most = _words(*worst.link), _words(*_most(worst))
    cost = view.shares.get("transfer", 0.0) * (1.0 - part)
    facts = [
        evidence(f"under load the link of {worst.name} is {now}, it can be {most}: "
                 f"{percent(part)} of its rate", "link_part", part),
        evidence(f"copies take {percent(view.shares.get('transfer', 0.0))} of the time",
                 "transfer_share", view.shares.get("transfer", 0.0)),
    ]  # fmt: skip
    result = finding(
        "link-degraded", cost, f"The PCIe link of {worst.kind.upper()} {worst.index} runs at {now}",
        facts, ["reseat the card or its riser, or use the slot that has all lanes; a width that "
                "falls under load is a bad contact or a shared slot"],
        limit=speedup_limit(cost),
    )  # fmt: skip
    if result.severity == "info":
        result.severity = "warning"  # broken hardware, even where this run does not feel it
    return result


def _most(device: Accelerator) -> tuple[int | None, int | None]:
    generation, width = device.number("link_generation_max"), device.number("link_width_max")
    return int(generation) if generation else None, int(width) if width else None


def _part(device: Accelerator) -> float:
    """Of the link's full rate; what is not known counts as full."""
    assert device.link is not None
    part = 1.0
    (generation, width), (top, wide) = device.link, _most(device)
    if generation and top and generation < top:
        part *= LANE_GB_S.get(generation, 1.0) / LANE_GB_S.get(top, 1.0)
    if width and wide and width < wide:
        part *= width / wide
    return part


def _words(generation: int | None, width: int | None) -> str:
    parts = [f"generation {generation}"] if generation else []
    return " ".join(parts + ([f"x{width}"] if width else []))
