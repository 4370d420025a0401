"""Another process used the job's device; said only where the driver's process list is sure."""

from __future__ import annotations

from typing import Any

from ..model import Clear, Judgement, RunView, Undecidable, evidence
from ..text import many, size
from .common import unpriced


def judge(view: RunView) -> Judgement:
    used = {d.index for d in view.used_devices}
    lists = [
        e["data"] for e in view.events
        if e["kind"] == "device-processes" and e["data"].get("device") in used
    ]  # fmt: skip
    if not used:
        return Clear()
    if not lists:
        return Undecidable("the driver's list of processes")
    foreign = _foreign(lists)
    if foreign:
        return _finding(foreign)
    unsure = next((d for d in lists if d.get("attribution") == "unknown"), None)
    if unsure is not None:
        return Undecidable(str(unsure.get("reason") or "whose processes use the device"))
    return Clear()


def _foreign(lists: list[dict[str, Any]]) -> dict[tuple[int, int], int | None]:
    """(device, PID): memory, of processes that are surely not the job's."""
    found: dict[tuple[int, int], int | None] = {}
    for data in lists:
        for process in data.get("processes") or []:
            if process.get("ours") is False:
                found[data["device"], process["pid"]] = process.get("memory_bytes")
    return found


def _finding(foreign: dict[tuple[int, int], int | None]) -> Judgement:
    facts = []
    for (device, pid), held in list(foreign.items())[:4]:
        memory = f", holding {size(held)}" if held else ""
        facts.append(evidence(f"PID {pid} used GPU {device}, too{memory}", "foreign_pid", pid))
    count = len({pid for _, pid in foreign})
    # Nobody knows what the others' work cost this one
    return unpriced(
        "shared-device", f"{many(count, 'process', 'processes')} of others used the device",
        facts, ["give the job a device of its own: what the driver counts (utilisation, power, "
                "memory) is everybody's together, and times vary with the others' work"],
    )  # fmt: skip
