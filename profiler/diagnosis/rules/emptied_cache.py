"""torch.cuda.empty_cache() in the loop: what it frees is allocated anew, with a wait each time."""

from __future__ import annotations

from ..model import Clear, Judgement, RunView, evidence
from ..text import many
from .common import unpriced

OFTEN = 0.1  # calls a step: at the end of an epoch or after an evaluation it does no harm


def judge(view: RunView) -> Judgement:
    if view.emptied is None or not view.steps_total:
        return Clear()
    calls, where = view.emptied
    if calls < OFTEN * view.steps_total:
        return Clear()
    place = f" at {where}" if where else ""
    facts = [evidence(
        f"torch.cuda.empty_cache(){place}: at least {many(calls, 'call')} in "
        f"{many(view.steps_total, 'step')}", "empty_cache_calls", calls,
    )]  # fmt: skip
    if view.on_cpu:
        facts.append(evidence("this run used no CUDA device, where it does nothing", "on_cpu",
                              "CPU"))  # fmt: skip
    return unpriced(
        "synchronisation", "The allocator's cache is emptied in the loop", facts,
        ["each call waits for the device, and the next step asks the driver for the memory again: "
         "call it every few hundred steps if it is what keeps the job in memory, or set "
         "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True instead"],
        severity="info" if view.on_cpu else "warning",
    )  # fmt: skip
