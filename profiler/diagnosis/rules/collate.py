"""Putting samples together into a batch takes most of the time that a batch costs."""

from __future__ import annotations

from ..model import Clear, Judgement, RunView, Undecidable, evidence
from ..text import duration, percent
from .common import WORTH, finding, input_facts

MOST = 0.5  # of a batch's time


def judge(view: RunView) -> Judgement:
    share = view.shares.get("input", 0.0)
    if share < WORTH:
        return Clear()
    made = view.workers
    if made is None or made.collate_s is None or made.fetch_s <= 0:
        return Undecidable("collate time of a batch")
    part = made.collate_s / made.fetch_s
    if part < MOST:
        return Clear()
    facts = [*input_facts(view), evidence(
        f"collate takes {duration(made.collate_s)} of it ({percent(part)})", "collate_share", part,
    )]  # fmt: skip
    return finding(
        "collate", share * part, "Collating the batch is the slow part of the input", facts,
        ["make collate_fn cheaper: tokenise or pad once beforehand, build one tensor instead of "
         f"many small ones; it costs {duration(made.collate_s)} a batch"],
    )  # fmt: skip
