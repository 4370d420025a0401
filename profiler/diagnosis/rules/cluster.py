"""More ranks than the step can use: they wait for each other most of the time."""

from __future__ import annotations

from ..model import Clear, Judgement, RunView, Undecidable, evidence
from ..text import percent
from .common import finding

# Half of the time exposed in collectives: half of the ranks would do nearly the same work
MOST = 0.4


def judge(view: RunView) -> Judgement:
    ranks = len([r for r in view.ranks if r["step_ms"]])
    if ranks < 2:
        return Clear()
    if "collective" not in view.observed:
        return Undecidable("collectives of the ranks")
    share = view.shares.get("communication", 0.0)
    # A slow rank makes the others wait, too: that is not the cluster's size
    waits = [r["communication_share"] for r in view.ranks if r["communication_share"] is not None]
    least = min(waits, default=0.0)
    if share < MOST or least < MOST:
        return Clear()
    worth = ranks * (1.0 - share)
    facts = [
        evidence(f"{percent(share)} of the slowest rank's time is communication",
                 "communication_share", share),
        evidence(f"{ranks} ranks do the work of {worth:.1f}", "effective_ranks", worth),
    ]  # fmt: skip
    result = finding(
        "oversized-cluster", share, "More ranks than this step can use", facts,
        [f"a larger batch a rank or gradient accumulation (no_sync between) makes {ranks} ranks "
         f"pay; else {max(1, round(worth))} would take about as long for "
         f"{percent(max(1, round(worth)) / ranks)} of the cost"],
    )  # fmt: skip
    return result
