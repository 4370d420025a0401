"""Checkpoints, logging and evaluation that take a large part of the time."""

from __future__ import annotations

import math

from ..model import Clear, Judgement, RunView, Undecidable, evidence
from ..text import duration, percent
from .common import finding, hot_places

NOTICE = 0.05
EVALUATION_NOTICE = 0.15  # some evaluation is wanted; a seventh of the run is worth a look
TARGET = 0.02  # a checkpoint interval is proposed that costs this much


def _pause(view: RunView, name: str) -> tuple[float, int, float] | None:
    """(share, steps with it, mean seconds of one)."""
    share = view.shares.get(name, 0.0)
    lengths = [v for s in view.steady.steps if (v := getattr(s, f"{name}_ns") or 0) > 0]
    mean = sum(lengths) / len(lengths) / 1e9 if lengths else 0.0
    if name not in view.observed and share == 0.0:
        return None
    return share, len(lengths), mean


def checkpoint(view: RunView) -> Judgement:
    found = _pause(view, "checkpoint")
    if found is None:
        return Undecidable("checkpoints: none was seen so far")
    share, count, each = found
    if share < NOTICE:
        return Clear()
    facts = [evidence(f"{percent(share)} of the time is saving", "checkpoint_share", share)]
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
    found = _pause(view, "logging")
    if found is None:
        return Undecidable("logging calls: none was seen so far")
    share, count, each = found
    if share < NOTICE:
        return Clear()
    facts = [evidence(f"{percent(share)} of the time is logging", "logging_share", share)]
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
    found = _pause(view, "evaluation")
    if found is None:
        return Undecidable("evaluation loops: none was seen so far")
    share, count, each = found
    if share < EVALUATION_NOTICE:
        return Clear()
    facts = [evidence(f"{percent(share)} of the time is evaluation", "evaluation_share", share)]
    if count:
        facts.append(
            evidence(f"{count} evaluations of {duration(each)}", "evaluation_s", each, "s")
        )
    return finding(
        "evaluation-heavy", share, "Evaluation takes much of the time", facts,
        ["evaluate less often or on a sample of the set; make sure it runs under "
         "torch.inference_mode() with its own larger batch size and loader workers"],
    )  # fmt: skip
