"""What the driver reports as broken: Xid errors, and devices that fell off the bus."""

from __future__ import annotations

from typing import Any

from ..model import Clear, Judgement, RunView, Undecidable, evidence
from ..text import many
from .common import finding

# Xids that a faulty program causes; the others are the card's, the link's or the driver's
PROGRAM = frozenset({13, 31, 43, 45})
REPLACE = frozenset({48, 64, 74, 79, 92, 95})


def _events(view: RunView, kind: str) -> list[dict[str, Any]]:
    return [e for e in view.events if e["kind"] == kind]


def _at(view: RunView, event: dict[str, Any]) -> str:
    start = view.run.get("started_ns")
    return f" at {max(0.0, (event['t_ns'] - start) / 1e9):.0f} s" if start else ""


def xid(view: RunView) -> Judgement:
    found = _events(view, "xid")
    if not found:
        if not view.devices:
            return Clear()
        refused = any(s == "nvml" and m == "xid" for s, m, _, _ in view.gaps)
        return Undecidable("the driver's Xid events") if refused else Clear()
    numbers = [e["data"].get("xid") for e in found]
    hardware = any(n not in PROGRAM for n in numbers)
    facts = [
        evidence(f"Xid {e['data'].get('xid')} on GPU {e['data'].get('device')}{_at(view, e)}: "
                 f"{e['data'].get('meaning') or 'not one of the usual errors'}", "xid",
                 e["data"].get("xid"))
        for e in found[:4]
    ]  # fmt: skip
    if any(n in REPLACE for n in numbers):
        advice = "take this GPU out of use and have it checked: the error is the hardware's"
    elif hardware:
        advice = "restart the driver or the host; if it comes again, have the GPU checked"
    else:
        advice = "run with CUDA_LAUNCH_BLOCKING=1 to find the operator that faults: the program's"
    result = finding(
        "xid", 1.0, f"The driver reported {many(len(found), 'Xid error')}", facts, [advice]
    )  # fmt: skip
    result.severity, result.speedup_limit = "critical" if hardware else "warning", None
    return result


def lost(view: RunView) -> Judgement:
    found = _events(view, "device-lost")
    if not found:
        unread = view.devices and all(d.readings == 0 for d in view.devices)
        return Undecidable("readings of the devices") if unread else Clear()
    back = {e["data"].get("device") for e in _events(view, "device-back")}
    facts = [
        evidence(
            f"GPU {e['data'].get('device')} ({e['data'].get('name') or '?'}) stopped answering"
            f"{_at(view, e)}" + (" and came back" if e["data"].get("device") in back else ""),
            "device", e["data"].get("device"),
        )
        for e in found[:4]
    ]  # fmt: skip
    result = finding(
        "device-lost", 1.0, "A GPU was lost during the run", facts,
        ["look for Xid 79 in the kernel's log (dmesg); power, heat and the riser are the usual "
         "reasons, and the host has to be restarted to get it back"],
    )  # fmt: skip
    result.severity, result.speedup_limit = "critical", None
    return result
