"""Clocks that power or heat holds down. What it costs depends on what the run is limited by."""

from __future__ import annotations

from typing import Any

from ..hardware import Accelerator
from ..model import Clear, Judgement, RunView, Undecidable, evidence, speedup_limit
from ..text import percent
from .common import finding

OFTEN = 0.10  # of the samples under load: less is a peak, not a state
# A power cap that binds is how many cards always run; heat and a power brake are faults
FAULTS = ("heat", "slowdown by the hardware (heat or power)", "power brake of the server")


def judge(view: RunView) -> Judgement:
    if view.on_cpu:
        return Clear()
    known = [d for d in view.used_devices if d.throttled_share is not None]
    if not known:
        return Undecidable("throttle reasons of the device")
    worst = max(known, key=lambda d: d.throttled_share or 0.0)
    if (worst.throttled_share or 0.0) < OFTEN:
        return Clear()
    compute, memory = view.shares.get("compute", 0.0), view.shares.get("memory", 0.0)
    # Arithmetic slows with the clock; memory and waiting do not
    cost = compute * (1.0 - (worst.clock_share or 1.0))
    result = finding(
        "throttled", cost, f"{_name(worst)} is slowed by {_reasons(worst)}", _facts(view, worst),
        [_advice(worst)], limit=speedup_limit(cost) if worst.clock_share else 1.0,
    )  # fmt: skip
    if memory > compute:
        result.evidence.append(evidence(
            "the run is limited by memory more than by arithmetic, so a lower clock costs little",
            "memory_share", memory,
        ))  # fmt: skip
    if result.severity == "info" and any(reason in FAULTS for reason in worst.throttles):
        result.severity = "warning"
    return result


def _name(device: Accelerator) -> str:
    return f"{device.kind.upper()} {device.index}"


def _reasons(device: Accelerator) -> str:
    ranked = sorted(device.throttles, key=lambda k: -device.throttles[k])
    return ranked[0] if ranked else "power or heat"


def _facts(view: RunView, device: Accelerator) -> list[Any]:
    facts = [
        evidence(f"{reason} held the clock in {percent(share)} of the samples under load",
                 "throttled_share", share)
        for reason, share in sorted(device.throttles.items(), key=lambda kv: -kv[1])
    ]  # fmt: skip
    if device.clock_share is not None:
        facts.append(evidence(
            f"the SM clock under load is {percent(device.clock_share)} of its maximum",
            "clock_share", device.clock_share,
        ))  # fmt: skip
    limit = device.number("power_limit_w")
    if device.power_w is not None and limit:
        facts.append(evidence(
            f"it draws {device.power_w:.0f} W of a limit of {limit:.0f} W", "power_w",
            device.power_w, "W",
        ))  # fmt: skip
    return facts


def _advice(device: Accelerator) -> str:
    default, limit = device.number("power_default_w"), device.number("power_limit_w")
    if any(reason in FAULTS for reason in device.throttles):
        return "improve the cooling or the power supply of this server: the card protects itself"
    if default and limit and limit < 0.95 * default:
        return f"nvidia-smi -pl {default:.0f}: the power limit was lowered to {limit:.0f} W"
    return "the power limit is this card's own: nothing to change unless it can be raised"
