"""Threads of the training process and busy workers that together want more cores than there are."""

from __future__ import annotations

from typing import NamedTuple

from .model import RunView
from .text import many

FULL = 0.9  # of all usable cores
FAR_ABOVE = 0.3  # of captured operator time in calls far above their floor
LEAST_BUSY = 0.25  # workers at work, mean, under which they are in nobody's way


class Competing(NamedTuple):
    threads: int  # of the training process, that share an operator's work
    workers: int
    busy: float  # of them at work, mean over the steady part
    cpus: int
    stalled: float  # share of captured operator time

    @property
    def fit(self) -> int:
        """Threads that leave the workers a core each."""
        return max(1, self.cpus - self.workers)

    @property
    def text(self) -> str:
        return (
            f"{self.threads} threads of the training process and {many(self.workers, 'worker')} "
            f"share {self.cpus} cores"
        )


def competing(view: RunView) -> Competing | None:
    """None where threads and workers fit the cores, or operators run as they should.

    A thread pool waits at the end of each operator for its slowest thread: one that a worker
    keeps from its core holds up the others, which spin meanwhile.
    """
    made, cpus, split, step_s = view.workers, view.host.cpus, view.split, view.step_s
    threads = view.main_threads or cpus
    if not view.on_cpu or made is None or made.in_process or split is None:
        return None
    if not cpus or not threads or threads < 2 or not step_s or not view.steady.count:
        return None
    if (view.host.cpu_share or 0.0) < FULL or split.stalled < FAR_ABOVE:
        return None
    busy = min(made.count, made.fetch_s * made.batches / (view.steady.count * step_s))
    found = Competing(threads, made.count, busy, cpus, split.stalled)
    fits = busy < LEAST_BUSY or threads + busy <= cpus or found.fit >= threads
    return None if fits else found
