"""Checkpoints, logging and evaluation that take a large part of the time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...report import Evidence
from ..model import Clear, Judgement, RunView, Undecidable, evidence
from ..text import duration, percent
from .common import finding, hot_places

NOTICE = 0.05
EVALUATION_NOTICE = 0.15  # some evaluation is wanted; a seventh of the run is worth a look
TARGET = 0.02  # a checkpoint interval is proposed that costs this much


@dataclass(frozen=True)
class Pause:
    share: float  # of the time
    count: int  # steps with it
    each: float  # mean seconds of one
    facts: list[Evidence]  # begun with the share


def _pause(view: RunView, name: str, notice: float, seen: str, said: str) -> Pause | Judgement:
    """A kind of pause that takes at least `notice` of the time, or the answer without one.

    `seen` and `said` are what the reader calls them.
    """
    share = view.shares.get(name, 0.0)
    if name not in view.observed and share == 0.0:
        return Undecidable(f"{seen}: none was seen so far")
    if share < notice:
        return Clear()
    lengths = [v for s in view.steady.steps if (v := getattr(s, f"{name}_ns") or 0) > 0]
    mean = sum(lengths) / len(lengths) / 1e9 if lengths else 0.0
    fact = evidence(f"{percent(share)} of the time is {said}", f"{name}_share", share)
    return Pause(share, len(lengths), mean, [fact])


def checkpoint(view: RunView) -> Judgement:
    found = _pause(view, "checkpoint", NOTICE, "checkpoints", "saving")
    if not isinstance(found, Pause):
        return found
    share, count, each, facts = found.share, found.count, found.each, found.facts
    lines = []
    if count:
        every = len(view.steady.steps) / count
        facts.append(evidence(
            f"a checkpoint takes {duration(each)}, one every {every:.0f} steps", "checkpoint_s",
            each, "s",
        ))  # fmt: skip
        rest = (view.step_s or 0.0) * (1.0 - share)
        if rest > 0:
            wanted = math.ceil(each / rest / TARGET)
            lines.append(
                f"save every {max(wanted, math.ceil(every))} steps: about {percent(TARGET)} of the "
                f"time instead of {percent(share)}"
            )
    lines.append("or save in the background: copy the state to memory, write it on a thread "
                 "(torch.distributed.checkpoint.async_save)")  # fmt: skip
    facts += hot_places(view, "checkpoint")
    return finding(
        "checkpoint-heavy", share, "Saving the state takes much of the time", facts, lines
    )


def logging(view: RunView) -> Judgement:
    found = _pause(view, "logging", NOTICE, "logging calls", "logging")
    if not isinstance(found, Pause):
        return found
    share, count, each, facts = found.share, found.count, found.each, found.facts
    if count:
        facts.append(evidence(
            f"{duration(each)} in each of {count} of {len(view.steady.steps)} steps", "logging_s",
            each, "s",
        ))  # fmt: skip
    facts += hot_places(view, "logging")
    rest = (view.step_s or 0.0) * (1.0 - share)
    every = math.ceil(each / rest / TARGET) if rest > 0 and each else 50
    return finding(
        "logging-heavy", share, "Logging takes much of the time", facts,
        [f"log every {max(2, every)} steps, from values kept on the device until then"],
    )  # fmt: skip


def evaluation(view: RunView) -> Judgement:
    found = _pause(view, "evaluation", EVALUATION_NOTICE, "evaluation loops", "evaluation")
    if not isinstance(found, Pause):
        return found
    if found.count:
        text = f"{found.count} evaluations of {duration(found.each)}"
        found.facts.append(evidence(text, "evaluation_s", found.each, "s"))
    return finding(
        "evaluation-heavy", found.share, "Evaluation takes much of the time", found.facts,
        ["evaluate less often or on a sample of the set; make sure it runs under "
         "torch.inference_mode() with its own larger batch size and loader workers"],
    )  # fmt: skip
