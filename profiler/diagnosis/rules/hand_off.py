"""Batches are ready; taking them over, unpickling in the training process, is what takes time."""

from __future__ import annotations

from ..capacity import capacity
from ..model import Clear, Judgement, RunView, Undecidable, evidence
from ..text import duration, percent
from .common import WORTH, finding, input_facts
from .sampler import slow_part

ON_CPU = 0.6  # of the wait the training thread works itself; waiting for a queue takes none
READY = 0.8  # of a step: workers that make a batch faster than this are not what is waited for


def judge(view: RunView) -> Judgement:
    share = view.shares.get("input", 0.0)
    made, step_s = view.workers, view.step_s
    if share < WORTH or made is None or made.in_process or not step_s or slow_part(view):
        return Clear()
    waited = [(s.data_wait_ns or 0, s.data_wait_cpu_ns) for s in view.steady.steps]
    wall = sum(w for w, cpu in waited if cpu is not None)
    if not wall:
        return Undecidable("CPU time of the training thread in its wait for data")
    part = sum(cpu for _, cpu in waited if cpu is not None) / wall
    room = capacity(view)
    if room is None:
        return Undecidable("what a batch costs")
    interval_s = room.batch_s / max(1, made.count)
    if part < ON_CPU or interval_s > READY * step_s:
        return Clear()
    facts = [*input_facts(view), evidence(
        f"a batch is made every {duration(interval_s)}, a step takes "
        f"{duration(step_s)}: batches are ready", "batch_interval_s", interval_s, "s",
    ), evidence(
        f"the training thread works {percent(min(1.0, part))} of the time it waits for data",
        "wait_cpu_share", part,
    )]  # fmt: skip
    return finding(
        "hand-off", share, "Taking a batch over from its worker is the slow part", facts,
        ["return few large tensors from the worker instead of many small objects: tensors travel "
         "through shared memory, everything else is pickled and unpickled in the training process; "
         "more workers would not help"],
    )  # fmt: skip
