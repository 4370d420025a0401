"""The verdict over time: windows of 50 steps or 30 s, whichever ends first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ..report import Bottleneck, Window
from . import shares
from .capacity import STRETCHED, takes_cores
from .model import RunView, Step
from .text import duration, percent

STEPS, SECONDS = 50, 30.0
# Bottleneck that each share stands for; evaluation and other are none
BOTTLENECK_OF: dict[str, Bottleneck] = {
    "input": "input-bound", "transfer": "transfer-bound", "compute": "compute-bound",
    "memory": "memory-bound", "host": "host-bound", "logging": "host-bound",
    "communication": "communication-bound", "checkpoint": "checkpoint-bound",
}  # fmt: skip


def cut(steps: Sequence[Step]) -> list[list[Step]]:
    """Steps in windows; a short rest joins the window before it."""
    found: list[list[Step]] = []
    current: list[Step] = []
    length_ns = 0
    for step in steps:
        current.append(step)
        length_ns += step.duration_ns
        if len(current) >= STEPS or length_ns >= SECONDS * 1e9:
            found.append(current)
            current, length_ns = [], 0
    if current and found and len(current) < STEPS // 4 and length_ns < SECONDS * 1e9 / 4:
        found[-1].extend(current)
    elif current:
        found.append(current)
    return found


def largest(found: dict[str, float]) -> tuple[str, Bottleneck]:
    """(share's name, bottleneck) of the largest share; inconclusive when it is none we can name."""
    if not found:
        return "other", "inconclusive"
    ranked = {k: v for k, v in found.items() if k != "evaluation"}
    name = max(ranked, key=lambda k: ranked[k])
    return name, BOTTLENECK_OF.get(name, "inconclusive")


# A part of the run this long is worth a word in the verdict; parts that change more often than
# this take turns (an epoch's start) and are no phases of the run
WORTH_PHASE, MOST_PHASES = 0.2, 4


def phases(found: Sequence[Window]) -> str | None:
    """How the bottleneck changes over the run, in words; None when one stands for all of it."""
    length = sum(w.to_s - w.from_s for w in found)
    known = [w for w in found if w.bottleneck != "inconclusive"]
    parts: dict[str, float] = {}
    for w in known:
        parts[w.bottleneck] = parts.get(w.bottleneck, 0.0) + w.to_s - w.from_s
    large = [name for name, spent in parts.items() if length and spent >= WORTH_PHASE * length]
    if len(large) < 2 or len(found) < 4:
        return None
    stretches = [
        (name, list(group))
        for name, group in groupby((w for w in known if w.bottleneck in large),
                                   key=lambda w: w.bottleneck)
    ]  # fmt: skip
    if len(stretches) > MOST_PHASES:
        shown = sorted(large, key=lambda name: -parts[name])
        return "by turns " + ", ".join(f"{n} {percent(parts[n] / length)}" for n in shown)
    return "; then ".join(
        f"{name} from {duration(max(0.0, group[0].from_s))} to {duration(group[-1].to_s)}"
        for name, group in stretches
    )


def over_time(view: RunView) -> list[Window]:
    start = view.run.get("started_ns") or (view.steps[0].t_ns if view.steps else 0)
    found = []
    by_cpu = takes_cores(view, largest(view.shares)[0]) is not None  # then the verdict is by CPU
    for steps in cut(view.steady.steps):
        divided, _, _ = shares.divide(shares.totals(steps), view.division)
        last, (name, bottleneck) = steps[-1], largest(divided)
        found.append(Window(
            from_s=(steps[0].t_ns - start) / 1e9,
            to_s=(last.t_ns + last.duration_ns - start) / 1e9,
            bottleneck="input-bound" if by_cpu and name in STRETCHED else bottleneck,
            shares=divided,
        ))  # fmt: skip
    return found
