"""Loader workers: too few, too slow, waiting for storage, or started again every epoch."""

from __future__ import annotations

from collections import Counter

from ..capacity import (
    MOST_CPU,
    Capacity,
    advice,
    capacity,
    making_cpu,
    promise,
    waits,
    without_making,
)
from ..model import Clear, Judgement, RunView, Undecidable, evidence
from ..text import duration, percent
from .collate import is_slow
from .common import WORTH, finding, input_facts, read_from
from .sampler import slow_part


def _room(view: RunView) -> Capacity | Judgement:
    if view.shares.get("input", 0.0) < WORTH:
        return Clear()
    if view.workers is None:
        return Undecidable("no batch was seen being made in a worker")
    if view.workers.in_process or slow_part(view):
        return Clear()
    return capacity(view) or Undecidable("steady steps")


def storage(view: RunView) -> Judgement:
    """Workers wait without using the CPU although cores are free."""
    room = _room(view)
    if not isinstance(room, Capacity):
        return room
    if room.batch_cpu_s is None:
        return Undecidable("CPU time of the workers")
    if not waits(view, room.batch_cpu_s, room.batch_s):
        return Clear()
    assert view.workers is not None
    facts = input_facts(view)
    if view.workers.disk_sleep_share:
        facts.append(evidence(
            f"workers were in disk sleep in {percent(view.workers.disk_sleep_share)} of samples",
            "disk_sleep_share", view.workers.disk_sleep_share,
        ))  # fmt: skip
    if view.host.iowait_share is not None:
        facts.append(evidence(
            f"host I/O wait {percent(view.host.iowait_share)}", "iowait_share",
            view.host.iowait_share,
        ))  # fmt: skip
    facts += read_from(view)
    lines = advice(view, room)
    lines.append(
        "or read less often: larger shards, a local copy or cache, prefetch_factor "
        "above 2; waiting costs no core, so workers beyond the core count still help"
    )
    return finding(
        "storage",
        view.shares["input"],
        "Workers wait for reads, not for the CPU",
        facts,
        lines,
        limit=promise(view, room),
    )


def too_few(view: RunView) -> Judgement:
    """The workers together make fewer batches than the step uses, and cores are free."""
    room = _room(view)
    if not isinstance(room, Capacity):
        return room
    assert view.workers is not None
    have = max(view.workers.count, (view.loader.num_workers or 0) if view.loader else 0)
    if room.workers <= have or not room.helps:
        return Clear()
    makes, few = (
        (f"{have} workers make", f"{have} workers are")
        if have > 1
        else ("one worker makes", "one worker is")
    )
    facts = [*input_facts(view), evidence(
        f"{makes} a batch every {duration(room.batch_s / have)}, a step without "
        f"waiting takes {duration(room.work_s)}", "batch_interval_s", room.batch_s / have, "s",
    )]  # fmt: skip
    return finding(
        "too-few-workers", view.shares["input"], f"{few} too few for this step",
        facts, advice(view, room), limit=promise(view, room),
    )  # fmt: skip


def decode(view: RunView) -> Judgement:
    """Workers burn CPU and there is none left: samples have to get cheaper."""
    made = making_cpu(view)
    crowded = made is not None and made >= MOST_CPU
    room = capacity(view) if crowded else _room(view)
    if not isinstance(room, Capacity):
        return room or Undecidable("steady steps")
    if room.batch_cpu_s is None:
        return Undecidable("CPU time of the workers")
    if waits(view, room.batch_cpu_s, room.batch_s) or is_slow(view.workers):
        return Clear()
    if crowded and made is not None and made > view.shares.get("input", 0.0):
        facts = [*input_facts(view), evidence(
            f"making batches takes {percent(made)} of the job's CPU time, and no core is free",
            "input_cpu_share", made,
        )]  # fmt: skip
        return finding("decode-cpu", made, "Making batches takes the cores from the training",
                       facts, advice(view, room), limit=without_making(view, made))  # fmt: skip
    return finding(
        "decode-cpu", view.shares["input"], "Decoding and transforming samples takes the CPU",
        input_facts(view), advice(view, room), limit=promise(view, room),
    )  # fmt: skip


def restart(view: RunView) -> Judgement:
    """Workers are started again at every epoch."""
    share = view.shares.get("input", 0.0)
    starting = view.iterator_share
    if starting is None:
        return Undecidable("the start of loader iterators")
    epochs = sum(1 for s in view.steady.steps if s.first_of_epoch)
    loader = view.loader
    kept = loader is not None and loader.persistent and not _remade(view)
    if view.workers is None or view.workers.in_process or kept:
        return Clear()
    # It has to be most of the input to be its cause, and to have happened more than once
    starting += _first_waits(view)
    if share < WORTH or starting < share / 2 or epochs < 2:
        return Clear()
    each = starting * view.steady.duration_ns / epochs / 1e9
    facts = [evidence(
        f"{epochs} epochs start with {duration(each)} of waiting each, {percent(starting)} of the "
        "time", "iterator_share", starting,
    )]  # fmt: skip
    line = f"DataLoader(..., persistent_workers=True): saves about {duration(each)} an epoch"
    if remade := _remade(view):
        times, where = remade
        facts.append(evidence(f"{where} made {times} DataLoaders", "loaders_made", times))
        line = (f"make the DataLoader of {where} once, before the loop over the epochs, with "
                f"persistent_workers=True: saves about {duration(each)} an epoch; loaders that are "
                "still referred to keep their workers, too")  # fmt: skip
    return finding(
        "worker-restart", starting, "Workers are started again every epoch", facts, [line],
    )  # fmt: skip


def _first_waits(view: RunView) -> float:
    """What new workers do before their first batch (open files, read an index), as a share of the
    time: the wait for it beyond a usual wait and a batch's own cost."""
    steps = view.steady.steps
    first = [s.data_wait_ns or 0 for s in steps if s.first_of_epoch]
    rest = [s.data_wait_ns or 0 for s in steps if not s.first_of_epoch]
    if not first or not rest or view.workers is None:
        return 0.0
    usual = sum(rest) / len(rest) + view.workers.fetch_s * 1e9
    return sum(max(0.0, wait - usual) for wait in first) / sum(s.duration_ns for s in steps)


def _remade(view: RunView) -> tuple[int, str] | None:
    """How often one line made a DataLoader with workers, and the line; None: once at most."""
    made = Counter(x.where for x in view.loaders if x.where and x.num_workers)
    where, times = next(iter(made.most_common(1)), (None, 0))
    return (times, where) if where and times > 1 else None
