"""More runnable threads than cores: workers and the training threads take turns."""

from __future__ import annotations

from ..model import Clear, Judgement, RunView, Undecidable, evidence
from ..text import percent
from .common import WORTH, finding, input_facts

FULL = 0.9  # of all usable cores
TOO_MANY = 2.0  # workers a core: above this at least one always waits for a core
WIDE_WORKER = 1.3  # cores of one worker: DataLoader gives each one thread, so its code made more


def judge(view: RunView) -> Judgement:
    share = view.shares.get("input", 0.0)
    if share < WORTH:
        return Clear()
    made, cpus = view.workers, view.host.cpus
    if made is None or made.in_process:
        return Clear()
    if cpus is None or view.host.cpu_share is None:
        return Undecidable("CPU use of the host")
    full = view.host.cpu_share >= FULL
    wide = (made.cpu_cores or 0.0) >= WIDE_WORKER
    if not full or not (wide or made.count > TOO_MANY * cpus):
        return Clear()
    facts = [*input_facts(view), evidence(
        f"{made.count} workers on {cpus} cores, which are {percent(view.host.cpu_share)} busy",
        "cpu_host", view.host.cpu_share,
    )]  # fmt: skip
    if made.cpu_cores is not None:
        facts.append(evidence(
            f"a worker uses {made.cpu_cores:.1f} cores", "worker_cores", made.cpu_cores, "cores",
        ))  # fmt: skip
    lines = [
        f"num_workers={max(1, cpus - 1)}: {cpus} cores cannot run {made.count} workers at once"
    ]
    if wide:
        lines.insert(0, "torch.set_num_threads(1) and OMP_NUM_THREADS=1 in worker_init_fn: one "
                     "worker uses several cores")  # fmt: skip
    return finding("cpu-oversubscribed", share, "Workers and threads compete for the cores",
                   facts, lines)  # fmt: skip
