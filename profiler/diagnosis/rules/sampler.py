"""The sampler picks a batch's samples in the training process, however many workers there are."""

from __future__ import annotations

from ..model import Clear, Judgement, RunView, Undecidable
from ..text import percent
from .common import WORTH, finding, hot_places, input_facts

MOST = 0.3  # of the samples in the loader; the rest is the wait that follows from it


def slow_part(view: RunView) -> float:
    """The part of the training thread's time in a loader with workers that the sampler takes."""
    if view.workers is None or view.workers.in_process:
        return 0.0
    part = sum(share for _, share in view.stacks.hot.get("in-loader", []))
    return part if part >= MOST else 0.0


def judge(view: RunView) -> Judgement:
    share = view.shares.get("input", 0.0)
    if share < WORTH or view.workers is None or view.workers.in_process:
        return Clear()
    if not view.stacks.samples:
        return Undecidable("stacks of the training thread")
    if not (part := slow_part(view)):
        return Clear()
    return finding(
        "loader-in-process", share, "The sampler runs in the training process and is slow",
        [*input_facts(view), *hot_places(view, "in-loader")],
        ["make the sampler cheaper: draw or sort the order of the whole epoch once (numpy, "
         f"torch.randperm) instead of searching for each batch; it takes {percent(part)} of the "
         "training thread's time in the loader, and more workers would not help"],
    )  # fmt: skip
