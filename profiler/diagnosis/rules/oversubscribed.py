"""More runnable threads than cores: workers and the training threads take turns."""

from __future__ import annotations

from ...report import Finding
from ..competing import FULL, competing
from ..model import Clear, Judgement, RunView, Undecidable, evidence
from ..text import many, percent
from .common import WORTH, finding, input_facts

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
        f"{many(made.count, 'worker')} on {cpus} cores, which are "
        f"{percent(view.host.cpu_share)} busy",
        "cpu_host", view.host.cpu_share,
    )]  # fmt: skip
    if made.cpu_cores is not None:
        facts.append(evidence(
            f"a worker uses {made.cpu_cores:.1f} cores", "worker_cores", made.cpu_cores, "cores",
        ))  # fmt: skip
    lines = [
        f"num_workers={max(1, cpus - 1)}: {cpus} cores cannot run "
        f"{many(made.count, 'worker')} at once"
    ]
    if wide:
        lines.insert(0, "torch.set_num_threads(1) and OMP_NUM_THREADS=1 in worker_init_fn: one "
                     "worker uses several cores")  # fmt: skip
    return finding("cpu-oversubscribed", share, "Workers and threads compete for the cores",
                   facts, lines)  # fmt: skip


def training(view: RunView) -> Judgement:
    """The training process' own threads and the workers are more than the cores."""
    if isinstance(judge(view), Finding):
        return Clear()  # said already
    if view.split is None:
        return Undecidable("captured operators")
    found = competing(view)
    if found is None:
        return Clear()
    facts = [
        evidence(found.text, "main_threads", float(found.threads), "threads"),
        evidence(f"{found.busy:.1f} workers are making batches at a time", "busy_workers",
                 found.busy, "workers"),
        evidence(f"{percent(found.stalled)} of captured operator time is in calls far above what "
                 "they need", "stalled_share", found.stalled),
    ]  # fmt: skip
    # How much of the stall other processes cause is not known: a trial tells, so no promise
    return Finding(
        id="cpu-oversubscribed", severity="warning", speedup_limit=None, evidence=facts,
        title="Threads of the training process and workers compete for the cores",
        advice=[
            f"OMP_NUM_THREADS={found.fit} in the job's environment, or "
            f"torch.set_num_threads({found.fit}) at its start: as many threads as the workers "
            f"leave cores; `accelprof tune --try main_threads={found.fit}` measures what it brings"
        ],
    )  # fmt: skip
