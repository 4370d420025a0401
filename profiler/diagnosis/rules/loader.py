"""Batches made in the training process: nothing overlaps with the step."""

from __future__ import annotations

from ...report import Finding
from ..capacity import Capacity, advice, capacity, promise, waits
from ..model import Clear, Judgement, RunView, Undecidable, evidence
from .common import WORTH, finding, hot_places, input_facts, read_from

INTO_LOADER = (
    "move the making of batches into a Dataset and read it through DataLoader(..., "
    "num_workers=2): it then overlaps with the step"
)


def _idle(view: RunView) -> bool | None:
    """Whether the training thread waits without CPU while it makes a batch; None: not known."""
    wall = sum(s.data_wait_ns or 0 for s in view.steady.steps if s.data_wait_cpu_ns is not None)
    if wall:
        return waits(view, sum(s.data_wait_cpu_ns or 0 for s in view.steady.steps), wall)
    if view.workers is not None and view.workers.cpu_s is not None:
        return waits(view, view.workers.cpu_s, view.workers.fetch_s)
    if view.input_by_stacks > 0 and view.job.main_cpu_cores is not None:
        return waits(view, view.job.main_cpu_cores, 1.0)
    return None


def _in_process(view: RunView) -> bool | None:
    if view.workers is not None:
        return view.workers.in_process
    if view.loader is not None and view.loader.num_workers is not None:
        return view.loader.num_workers == 0
    return None


def in_process(view: RunView) -> Judgement:
    """DataLoader with num_workers=0, or data made in the user's own loop."""
    share = view.shares.get("input", 0.0)
    if share < WORTH:
        return Clear()
    if view.input_by_stacks > share / 2:
        return _own_code(view, share)
    where = _in_process(view)
    if where is None:
        return Undecidable("how batches are made: no DataLoader was seen")
    if not where:
        return Clear()
    room = capacity(view)
    title = "Batches are made in the training process (num_workers=0)"
    if room is not None and not room.helps and room.no_core:  # workers are no cure, and why
        title = "Batches are made in the training process, and no core is free for workers"
    return _finding(view, "loader-in-process", share, title)


def waiting(view: RunView) -> Judgement:
    """The same, but the time goes to waiting for reads: the store is slow, not the CPU."""
    share = view.shares.get("input", 0.0)
    if share < WORTH:
        return Clear()
    idle = _idle(view)
    if idle is None:
        return Undecidable("CPU time of the making of a batch")
    if not idle or not (_in_process(view) or view.input_by_stacks > share / 2):
        return Clear()
    return _finding(view, "storage", share, "Reading a batch waits for storage or the network, in "
                    "the training process")  # fmt: skip


def _finding(view: RunView, id: str, share: float, title: str) -> Finding:
    room = capacity(view)
    own = view.input_by_stacks > share / 2
    lines = [INTO_LOADER] if own else advice(view, room) if room else [
        "num_workers=1 or more moves the work off the step"]  # fmt: skip
    if room is not None and not room.helps and room.batch_s > room.work_s:
        lines = [*lines, _overlap(room)] if room.gain > 1.02 else lines
    facts = input_facts(view) + next(
        (found for kind in ("input", "in-loader", "loader")[0 if own else 1 :]
         if (found := hot_places(view, kind))), [],
    )  # fmt: skip
    if id == "storage":
        facts += read_from(view)
    if (place := view.copied_in_data) is not None:
        text = f"batches are copied to the device while they are made, at {place}"
        facts.append(evidence(text, "copied_in_data", place))
        lines = ["return CPU tensors from the Dataset and copy the batch in the loop "
                 "(batch.to(device, non_blocking=True)): a worker process cannot use the training "
                 "process' device", *lines]  # fmt: skip
    return finding(id, share, title, facts, lines,
                   limit=promise(view, room))  # fmt: skip


def _overlap(room: Capacity) -> str:
    return f"or num_workers=1, which overlaps input with the step: at most {room.gain:.2f}x"


def _own_code(view: RunView, share: float) -> Finding:
    facts = input_facts(view) + hot_places(view, "input")
    return finding(
        "loader-in-process", share, "Batches are made in the training loop itself", facts,
        [INTO_LOADER],
    )  # fmt: skip
