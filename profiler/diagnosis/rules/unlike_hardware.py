"""Hardware other than it seems: unlike devices side by side, or not what the name lets expect."""

from __future__ import annotations

from ..hardware import Accelerator
from ..model import Clear, Judgement, RunView, Undecidable, evidence
from ..text import size
from .common import unpriced

NOT_LISTED = "not in the catalogue"
SAME_MEMORY, SAME_POWER = 0.05, 0.05  # parts by which equal cards differ in what they report


def mixed(view: RunView) -> Judgement:
    """Devices that work together and are not alike: the slowest sets the pace."""
    used = view.used_devices
    if len(used) < 2 or view.of_host:  # the cards of a host do not work on one job
        return Clear()
    if any(not d.name for d in used):
        return Undecidable("the names of the devices")
    differ = _differences(used)
    if not differ:
        return Clear()
    facts = [evidence(text, metric, None) for text, metric in differ]
    return unpriced(
        "mixed-hardware", "The devices of this job are not alike", facts,
        ["equal shares of work wait for the slowest device: use equal ones, or give each rank a "
         "batch to its speed"],
    )  # fmt: skip


def _differences(used: tuple[Accelerator, ...]) -> list[tuple[str, str]]:
    found = []
    if len({d.name for d in used}) > 1:
        found.append((", ".join(f"{d.index}: {d.name}" for d in used), "names"))
    for what, metric, known, same, show in (
        ("memory", "memory_bytes", [d.memory_bytes for d in used], SAME_MEMORY, size),
        ("power limit", "power_limit_w", [d.number("power_limit_w") for d in used], SAME_POWER,
         lambda w: f"{w:.0f} W"),
    ):  # fmt: skip
        values = [float(v) for v in known if v]
        if len(values) > 1 and min(values) < (1.0 - same) * max(values):
            found.append((f"{what} from {show(min(values))} to {show(max(values))}", metric))
    widths = {d.number("link_width_max") for d in used} - {None}
    if len(widths) > 1:
        text = ", ".join(f"x{w:.0f}" for w in sorted(w for w in widths if w))
        found.append((f"links of {text} lanes", "link_width_max"))
    return found


def wrong(view: RunView) -> Judgement:
    """The card, its slot or its limits are less than its name promises; devices that are absent."""
    if not view.devices:
        return Clear()
    told = [
        (d, str(fact)) for d in view.used_devices for fact in d.details.get("facts") or []
        if NOT_LISTED not in str(fact)
    ]  # fmt: skip
    absent = [
        str(e["data"].get("note")) for e in view.events
        if e["kind"] == "cuda-visible" and "names no device" in str(e["data"].get("note"))
    ]  # fmt: skip
    if not told and not absent:
        unknown = [d for d in view.used_devices if d.catalogue is None]
        return Undecidable(f"figures of {unknown[0].name}") if unknown else Clear()
    facts = [evidence(f"{d.name}: {fact}", "hardware", fact) for d, fact in told[:3]]
    facts += [evidence(text, "cuda_visible", text) for text in dict.fromkeys(absent)]
    return unpriced(
        "wrong-hardware", "The hardware is not what its name lets expect", facts,
        ["accelprof devices --expect NAME checks it before a job starts; the same name is sold "
         "with different memory, links and power limits"],
    )  # fmt: skip
