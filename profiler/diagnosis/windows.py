"""The verdict over time: windows of 50 steps or 30 s, whichever ends first."""

from __future__ import annotations

from collections.abc import Sequence

from ..report import Bottleneck, Window
from . import shares
from .model import RunView, Step

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


def over_time(view: RunView) -> list[Window]:
    start = view.run.get("started_ns") or (view.steps[0].t_ns if view.steps else 0)
    found = []
    for steps in cut(view.steady.steps):
        divided, _, _ = shares.divide(shares.totals(steps), view.division)
        last = steps[-1]
        found.append(Window(
            from_s=(steps[0].t_ns - start) / 1e9,
            to_s=(last.t_ns + last.duration_ns - start) / 1e9,
            bottleneck=largest(divided)[1], shares=divided,
        ))  # fmt: skip
    return found
