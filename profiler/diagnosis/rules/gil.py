"""Another Python thread of the training process holds the interpreter's lock."""

from __future__ import annotations

from ..model import Clear, Judgement, RunView, Undecidable, evidence, speedup_limit
from ..text import percent
from .common import WORTH, finding

BUSY = 0.5  # of the samples that the thread runs Python: it wants the lock at least half the time
# Threads that ran at once would use more than one core together; the lock lets one run
ONE_CORE = 1.4


def judge(view: RunView) -> Judgement:
    host = view.shares.get("host", 0.0)
    if host < WORTH:
        return Clear()
    if not view.stacks.samples:
        return Undecidable("stacks of the training process")
    if not view.busy_threads or view.busy_threads[0][1] < BUSY:
        return Clear()
    cores = view.job.main_cpu_cores
    if cores is None:
        return Undecidable("CPU use of the training process")
    if cores > ONE_CORE:
        return Clear()  # they run at the same time: the other thread does not hold the lock
    name, share = view.busy_threads[0]
    # The lock is shared evenly: the training thread gets back what the other one took, at most
    cost = min(host, share / (1.0 + share))
    facts = [
        evidence(f'thread "{name}" runs Python in {percent(share)} of the samples',
                 "thread_share", share),
        evidence(f"the training process uses {cores:.1f} cores: its threads take turns",
                 "main_cpu_cores", cores, "cores"),
    ]  # fmt: skip
    return finding(
        "gil", cost, f'Thread "{name}" holds the interpreter that the training thread needs', facts,
        ["move that thread's work into a process of its own (multiprocessing, a DataLoader worker) "
         "or into code that releases the lock"],
        limit=speedup_limit(cost),
    )  # fmt: skip
