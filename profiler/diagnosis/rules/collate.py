"""Putting samples together into a batch takes most of the time that a batch costs."""

from __future__ import annotations

from ..model import Clear, Judgement, RunView, Undecidable, Workers, evidence
from ..text import duration, percent
from .common import WORTH, finding, input_facts

MOST = 0.5  # of a batch's time


def is_slow(made: Workers | None) -> bool:
    """Whether collating takes most of a batch's time: then samples are not what is slow."""
    if made is None or made.collate_s is None or made.fetch_s <= 0:
        return False
    return made.collate_s / made.fetch_s >= MOST


def judge(view: RunView) -> Judgement:
    share = view.shares.get("input", 0.0)
    if share < WORTH:
        return Clear()
    made = view.workers
    if made is None or made.collate_s is None or made.fetch_s <= 0:
        return Undecidable("collate time of a batch")
    if not is_slow(made):
        return Clear()
    part = made.collate_s / made.fetch_s
    facts = [*input_facts(view), evidence(
        f"collate takes {duration(made.collate_s)} of it ({percent(part)})", "collate_share", part,
    )]  # fmt: skip
    return finding(
        "collate", share * part, "Collating the batch is the slow part of the input", facts,
        ["make collate_fn cheaper: tokenise or pad once beforehand, build one tensor instead of "
         f"many small ones; it costs {duration(made.collate_s)} a batch"],
    )  # fmt: skip
