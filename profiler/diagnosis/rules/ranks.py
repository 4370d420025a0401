"""Ranks that wait for each other, and collectives that nothing hides."""

from __future__ import annotations

from ...report import Evidence
from ..model import Clear, Compared, Judgement, RunView, Undecidable, evidence, speedup_limit
from ..steady import batches_a_step
from ..text import duration, many, percent, size
from .common import WORTH, finding, hot_places

# Equal ranks take turns: of two, each is slowest in half of the steps; of more, in fewer
CONSTANT = 0.7
SEVERAL = 1.5  # backwards a step, mean
NAMES = {
    "input": "waiting for its data", "forward": "its forward", "backward": "its backward",
    "optimizer": "its optimizer", "checkpoint": "saving checkpoints", "logging": "logging",
    "evaluation": "evaluation", "rest": "its own code between the phases",
}  # fmt: skip


def straggler(view: RunView) -> Judgement:
    """One rank holds the others up: the one that waits least in the collectives."""
    found = view.compared
    if found is None:
        several = len([r for r in view.ranks if r["step_ms"]]) > 1
        return Undecidable("waits of the ranks for each other") if several else Clear()
    if found.excess_share < WORTH:
        return Clear()
    constant = found.recurrence >= CONSTANT
    facts = _facts(found)
    if found.part == "rest" and constant:
        facts += hot_places(view, "user") or hot_places(view, "input")
    if constant:
        title = f"Rank {found.rank} holds the others up in {percent(found.recurrence)} of the steps"
        lines = [f"look at rank {found.rank} alone: its host, its cores and clocks, the length of "
                 "its data; without it a step takes "
                 f"{duration(found.others_s)}"]  # fmt: skip
    else:
        title = "The ranks take turns at being slow, and all wait for the slowest"
        lines = ["even out what differs from step to step: batches of equal length (bucketing), "
                 "enough loader workers to hide a slow sample, checkpoints and logging on all "
                 "ranks at once or beside the training"]  # fmt: skip
    share = found.excess_share
    return finding("straggler", share, title, facts, lines, limit=speedup_limit(share))


def _facts(found: Compared) -> list[Evidence]:
    often = f"rank {found.rank} waits least in {percent(found.recurrence)} of {found.steps} steps"
    return [
        evidence(
            f"the slowest rank works {duration(found.excess_s + found.others_s)} a step, the next "
            f"one {duration(found.others_s)}", "slowest_excess_s", found.excess_s, "s",
        ),
        evidence(often, "recurrence", found.recurrence),
        evidence(f"it loses {duration(found.part_s)} of that in {NAMES[found.part]}",
                 "slow_part", found.part),
    ]  # fmt: skip


def exposed(view: RunView) -> Judgement:
    """Even the rank that waits least spends its time in collectives."""
    share = view.shares.get("communication", 0.0)
    if not view.steady.steps or (len(view.ranks) < 2 and "collective" not in view.observed):
        return Clear()
    if "collective" not in view.observed:
        return Undecidable("collectives of the ranks")
    if share < WORTH:
        return Clear()
    a_step = share * (view.step_s or 0.0)
    who = "the rank that waits least" if view.compared else "this rank"
    facts = [evidence(
        f"{who} spends {percent(share)} of its time in collectives that nothing hides, "
        f"{duration(a_step)} a step", "communication_share", share,
    )]  # fmt: skip
    gradients = sum(int(p["bytes"]) for p in view.parallel if isinstance(p.get("bytes"), int))
    if gradients and a_step > 0:
        once = (
            batches_a_step(view.steady.steps) <= SEVERAL
        )  # of several, how many synchronise is not known
        rate = f", {size(gradients / a_step)}/s" if once else ""
        facts.append(evidence(
            f"{size(gradients)} of gradients a synchronisation{rate}",
            "gradient_bytes", gradients, "B",
        ))  # fmt: skip
    return finding("exposed-collective", share, "Collectives are not hidden behind work", facts,
                   _advice(view))  # fmt: skip


def _advice(view: RunView) -> list[str]:
    lines = []
    several = batches_a_step(view.steady.steps)
    if several > SEVERAL and view.parallel:
        lines.append(f"a step has {many(round(several), 'backward')}: let only the last one "
                     "synchronise, if more do (with model.no_sync(): in the others)")  # fmt: skip
    else:
        lines.append("fewer synchronisations: a larger batch a rank, or gradient accumulation with "
                     "model.no_sync()")  # fmt: skip
    if any(p.get("unused") for p in view.parallel):
        lines.append("find_unused_parameters=True walks the graph in every step: leave it out "
                     "unless some steps give some parameters no gradient")  # fmt: skip
    lines.append("fewer bytes: model.register_comm_hook(None, bf16_compress_hook) of "
                 "torch.distributed.algorithms.ddp_comm_hooks halves fp32 gradients")  # fmt: skip
    return lines
