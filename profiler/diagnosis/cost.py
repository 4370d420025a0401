"""What a run cost and how much of that was lost: accelerator time, money, energy.

Accelerator time is wall time x the accelerators that the job used. Lost is the part of it in which
the job made them wait: input, transfer, host, communication, checkpoint and logging, as shares of
the steady part. Evaluation is wanted work, and `other` is not known, so neither counts as lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..accelerators.prices import Offer, cheapest, offers
from ..report import Cost, Loss
from .hardware import Accelerator
from .model import RunView

LOST = ("input", "transfer", "host", "communication", "checkpoint", "logging")


def cost(view: RunView) -> Cost:
    """The cost block of the report; without an accelerator all of it is unknown."""
    used, wall_s = view.used_devices, _wall_s(view)
    if not used or wall_s is None or view.imported:
        return Cost(energy_j=view.device.energy_j)
    whole_s = wall_s * len(used)
    per_hour, source = _price(used)
    lost = _lost_share(view)
    lost_s = whole_s * lost if lost is not None else None
    idle_w = _idle_power_w(used)
    return Cost(
        usd_per_hour=per_hour, usd=_usd(per_hour, wall_s), accelerator_s=whole_s,
        lost_accelerator_s=lost_s, lost_usd=_part(_usd(per_hour, wall_s), lost),
        energy_j=view.device.energy_j, price_source=source,
        lost_energy_j=_part(idle_w, lost_s),
        losses=[
            Loss(share=name, accelerator_s=whole_s * part, usd=_part(_usd(per_hour, wall_s), part),
                 energy_j=_part(idle_w, whole_s * part))
            for name, part in sorted(view.shares.items(), key=lambda kv: -kv[1])
            if name in LOST and part >= 0.005
        ],
    )  # fmt: skip


def _wall_s(view: RunView) -> float | None:
    start = view.run.get("started_ns")
    return ((view.run.get("ended_ns") or view.now_ns) - start) / 1e9 if start else None


def _lost_share(view: RunView) -> float | None:
    """By shares where there are any, else the time in which the devices were idle."""
    if view.shares:
        return sum(view.shares.get(name, 0.0) for name in LOST)
    busy = view.device.busy_share
    return 1.0 - busy if busy is not None else None


def _price(used: Sequence[Accelerator]) -> tuple[float | None, str | None]:
    """USD per hour of all of them at the cheapest listed price, and where that stands."""
    listed = offers()
    found: list[Offer] = []
    for device in used:
        offer = cheapest(device.catalogue, listed) if device.catalogue else None
        if offer is None:
            return None, None
        found.append(offer)
    return (
        sum(o.usd_per_device_hour or 0.0 for o in found),
        "; ".join(dict.fromkeys(o.label for o in found)),
    )


def _idle_power_w(used: Sequence[Accelerator]) -> float | None:
    """What a device draws while it waits: the mean of its readings when it was not busy."""
    known = [d.idle_power_w for d in used if d.idle_power_w is not None]
    return sum(known) / len(known) if len(known) == len(used) else None


def _usd(per_hour: float | None, seconds: float) -> float | None:
    return per_hour * seconds / 3600 if per_hour is not None else None


def _part(whole: float | None, part: float | None) -> float | None:
    return whole * part if whole is not None and part is not None else None
