"""What more loader workers could bring: batch cost against the step and the CPU that is there."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .inconclusive import ENOUGH_STEPS
from .model import RunView, Workers, speedup_limit
from .steady import batches_a_step
from .text import duration, many

USEFUL_GAIN = 1.1  # below this more workers are not worth a line of code
MOST_WORKERS = 64
NO_CORE = 0.2  # free cores under which there is none
LEAST_CORES = 0.5  # the job gets some of the CPU however many others want it


@dataclass(frozen=True)
class Capacity:
    """All per step; `best_s` is what the step can come down to, by work and by CPU."""

    batch_s: float
    batch_cpu_s: float | None
    work_s: float
    step_s: float
    best_s: float
    workers: int
    free_cores: float | None
    cpus: int | None

    @property
    def gain(self) -> float:
        return self.step_s / self.best_s if self.best_s > 0 else 1.0

    @property
    def no_core(self) -> bool:
        """Whether what workers do would be taken from the step, as far as is known."""
        return self.free_cores is None or self.free_cores < NO_CORE

    @property
    def helps(self) -> bool:
        return self.gain >= USEFUL_GAIN


# CPU time under this part of a batch's wall time: it waits (decode measured 1.0, storage 0.2)
WAITING = 0.4
# On a crowded machine a worker also waits for a core. So little CPU that ten runnable threads a
# core would be needed to stretch it that far is waiting all the same.
FULL_CPU, CERTAINLY_WAITS = 0.85, 0.1


# A share of the time from which the states of a process that does more than make batches tell
LEAST_MAKING = 0.3


def waits(view: RunView, cpu_s: float, wall_s: float) -> bool:
    """Whether the making of a batch waits for something other than a core."""
    made, wanted = view.workers, wanted_core(view)
    if made is not None and not made.in_process and wanted is not None:
        return max(cpu_s, wanted * wall_s) < WAITING * wall_s
    return process_waits(view, cpu_s, wall_s, wanted)


def process_waits(view: RunView, cpu_s: float, wall_s: float, wanted: float | None) -> bool:
    """The same of work in the training process; `wanted`: of it, at least, it could run."""
    if wanted is not None and wanted >= WAITING:
        return False
    crowded = (view.host.cpu_share or 0.0) >= FULL_CPU
    return cpu_s < (CERTAINLY_WAITS if crowded else WAITING) * wall_s


def wanted_core(view: RunView) -> float | None:
    """Of the making of batches, the part in which it was on a core or waited for one; None when
    the states of the processes do not tell.

    Beside other load a decoder gets little CPU time, as if it read from a slow disk. The kernel
    tells them apart: who waits for a core is runnable, who waits for a read is not.
    """
    made, step_s = view.workers, view.step_s
    if made is not None and not made.in_process:
        if made.running_share is None or not step_s or not view.steady.count:
            return None
        busy = made.fetch_s * made.batches / (made.count * view.steady.count * step_s)
        return min(1.0, made.running_share / max(min(1.0, busy), 0.05))
    part, running = view.shares.get("input", 0.0), view.job.main_running
    if running is None or part < LEAST_MAKING:
        return None
    return max(0.0, running - (1.0 - part)) / part  # were it runnable in all the rest


def _batches_per_step(view: RunView, made: Workers) -> float:
    """Batches that one step takes from the loader; 1.0 where that is not known to be another."""
    if made.in_process:  # of these only some are looked at: their count tells nothing
        return batches_a_step(view.steady.steps)
    per_step = made.batches / view.steady.count
    # Batches made ahead at either end of the steady part are not of these steps
    return per_step if 0.5 < per_step < 1000 and abs(per_step - 1.0) > 0.25 else 1.0


def capacity(view: RunView) -> Capacity | None:
    """None when no batch was seen made or no step is steady.

    With enough workers a step takes max(its own work, all CPU seconds of a step / usable CPUs):
    workers hide what waits, but they cannot make CPU time.
    """
    made, step_s = view.workers, view.step_s
    if made is None or step_s is None or made.fetch_s <= 0 or not view.steady.steps:
        return None
    batch_s = made.fetch_s * _batches_per_step(view, made)
    cpu_s = made.cpu_s * batch_s / made.fetch_s if made.cpu_s is not None else None
    work_s = max(step_s * (1.0 - view.shares.get("input", 0.0)), 1e-6)
    cpus, best_s, free = view.host.cpus, work_s, None
    own, others = view.job_cores, view.others_cores or 0.0
    if own is None and view.host.cpu_share is not None and cpus:
        own = view.host.cpu_share * cpus
    if cpus and own is not None:
        available = max(LEAST_CORES, cpus - others)
        best_s = max(work_s, own * step_s / available)
        free = max(0.0, cpus - own - others)
    elif cpus and cpu_s is not None:
        best_s = max(work_s, cpu_s / cpus)
    if (
        free is not None
        and free < NO_CORE
        and not (cpu_s is not None and waits(view, cpu_s, batch_s))
    ):
        best_s = step_s
    best_s = min(best_s, step_s)
    wanted = min(MOST_WORKERS, max(1, math.ceil(batch_s / best_s * 1.05)))
    return Capacity(batch_s, cpu_s, work_s, step_s, best_s, wanted, free, cpus)


# Shares of the step's own work: what workers that take the cores stretch
STRETCHED = ("compute", "memory", "host", "other")
# Of the job's CPU time: without the making of batches the rest would take well under half as long
MOST_CPU = 0.6


def making_cpu(view: RunView) -> float | None:
    """The part of the job's CPU time in which its workers make batches, where no core is free.

    On a CPU the workers take the cores from the training thread: its step gets longer, not its
    wait. None where they do not compete (on a device, in process, or with cores to spare) and
    where it is not known. Both parts are CPU time: of each batch, and of the training process.
    """
    making, own = view.making_cores, view.job.main_cpu_cores
    if not view.on_cpu or not making or not own or len(view.steady.steps) < ENOUGH_STEPS:
        return None
    if (view.host.cpu_share or 0.0) < FULL_CPU:
        return None
    return making / (making + own)


def takes_cores(view: RunView, largest: str) -> float | None:
    """The making's part of the CPU time, where that is why this share is the largest; else None."""
    made = making_cpu(view) if largest in STRETCHED else None
    return made if made is not None and made >= MOST_CPU else None


def without_making(view: RunView, made: float) -> float:
    """What no making of batches at all would bring, at most: the training process' own CPU time
    stays, on however many cores."""
    own, cpus = view.job.main_cpu_cores, view.host.cpus
    left = own / cpus if own and cpus else 0.0
    return min(speedup_limit(made), speedup_limit(1.0 - min(1.0, left)))


def promise(view: RunView, room: Capacity | None) -> float:
    """What the first line of `advice` can bring: N workers what they reach, cheaper samples at most
    all of the wait."""
    most = speedup_limit(view.shares.get("input", 0.0))
    return round(min(most, room.gain), 2) if room is not None and room.helps else most


def advice(view: RunView, room: Capacity) -> list[str]:
    """The line to change with its figures, or why it would not help."""
    where = view.loader.where if view.loader and view.loader.where else None
    at = f" ({where})" if where else ""
    cost = f"a batch costs {duration(room.batch_s)}"
    if room.batch_cpu_s is not None:
        cost += f" of which {duration(room.batch_cpu_s)} CPU"
    cores = (
        f"; {room.free_cores:.1f} of {room.cpus} cores are free"
        if room.free_cores is not None
        else ""
    )
    have = view.loader.num_workers if view.loader else None
    if have and room.helps and room.workers <= have:
        return [
            f"prefetch_factor=4 or more{at}: {cost}{cores}, so that {many(have, 'worker')} suffice "
            "on average, and what is waited for comes in bursts or at the start of epochs"
        ]
    if not room.helps:
        alone = view.workers is not None and view.workers.in_process
        workers = "workers (num_workers=1 or more)" if alone else "more workers"
        little = room.gain > 1.02
        bring = f"help little (at most {room.gain:.2f}x)" if little else "not help"
        used = f"the {room.cpus} usable cores are busy" if room.cpus else "the cores are busy"
        if not room.no_core:
            used = f"the rest of the step takes {duration(room.work_s)}"
        return [
            "make a sample cheaper (decode once and cache, smaller images, a batched transform) or "
            f"use more cores; {workers} would {bring}: {cost} and {used}{cores}"
        ]
    return [
        f"DataLoader(..., num_workers={room.workers}){at}: {cost}, the rest of the step takes "
        f"{duration(room.work_s)}{cores}; {many(room.workers, 'worker')} would bring the step from "
        f"{duration(room.step_s)} to about {duration(room.best_s)}"
    ]
