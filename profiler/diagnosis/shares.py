"""Where each second went: the steady part as ten shares of wall time that sum to 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..report import SHARES
from .model import DeviceUse, Split, StackShares, Step

# The raw parts of a step, in this order; `work` and `uncovered` are divided further
RAW = (
    "input", "transfer", "communication", "checkpoint", "logging", "evaluation", "work",
    "before_forward", "uncovered",
)  # fmt: skip


def raw(step: Step) -> tuple[float, ...]:
    """One step's time by RAW, ns. Overlong phases are cut so that the parts sum to the step.

    Where the device was timed its waiting and copying counts, not the host's: a wait that queued
    work outlasts is work, and a copy takes what it takes the device, however soon its call returns.
    """
    phases = [
        (step.data_wait_ns or 0) + (step.iterator_ns or 0),
        step.h2d_ns or 0, step.collective_ns or 0, step.checkpoint_ns or 0,
        step.logging_ns or 0, step.evaluation_ns or 0,
        (step.forward_ns or 0) + (step.backward_ns or 0) + (step.optimizer_ns or 0),
        step.pre_forward_ns or 0,
    ]  # fmt: skip
    _by_device(step, phases)
    total = sum(phases)
    if total > step.duration_ns:
        scale = step.duration_ns / total
        return (*(p * scale for p in phases), 0.0)
    return (*(float(p) for p in phases), float(step.duration_ns - total))


def _by_device(step: Step, phases: list[int]) -> None:
    """Sets input and transfer to the device's time; what that leaves or needs is work's."""
    wait, copies, work = (RAW.index(name) for name in ("input", "transfer", "work"))
    if step.data_wait_device_ns is not None and not step.evaluation_ns:
        hidden = max(0, phases[wait] - step.data_wait_device_ns)
        phases[wait] -= hidden
        phases[work] += hidden
    if step.h2d_device_ns is not None:
        loose = step.duration_ns - sum(phases)
        longer = min(step.h2d_device_ns - phases[copies], phases[work] + max(0, loose))
        phases[copies] += longer
        phases[work] = max(0, phases[work] - longer)


def totals(steps: Sequence[Step]) -> list[float]:
    """Sums of RAW over steps."""
    if not steps:
        return [0.0] * len(RAW)
    return [sum(column) for column in zip(*(raw(s) for s in estimated(steps)), strict=True)]


def estimated(steps: Sequence[Step]) -> Sequence[Step]:
    """The steps, those that were not timed on the device with what the timed ones had: of quick
    steps some are timed. Waits in proportion to the host's, copies by their mean."""
    waits = [s for s in steps if s.data_wait_device_ns is not None]
    copies = [s.h2d_device_ns for s in steps if s.h2d_device_ns is not None]
    if not waits and not copies:
        return steps
    host = sum((s.data_wait_ns or 0) + (s.iterator_ns or 0) for s in waits)
    exposed = sum(s.data_wait_device_ns or 0 for s in waits) / host if host else 0.0
    copied = sum(copies) // len(copies) if copies else None
    return [
        s._replace(
            data_wait_device_ns=s.data_wait_device_ns
            if s.data_wait_device_ns is not None or not waits
            else round(((s.data_wait_ns or 0) + (s.iterator_ns or 0)) * exposed),
            h2d_device_ns=copied if s.h2d_device_ns is None and s.h2d_ns else s.h2d_device_ns,
        )
        for s in steps
    ]


# Shares that stacks can move time to, out of time without a span; `other` takes what is blind
MOVED = ("input", "logging", "checkpoint", "evaluation")


@dataclass(frozen=True)
class Division:
    """How work and uncovered time divide; the same for every window of a run."""

    split: Split | None
    device: DeviceUse
    stacks: StackShares  # uncovered time by stack category, of all the thread's time
    has_loader: bool
    memory_fraction: float | None  # of device-busy time whose limit is known
    unknown_fraction: float = 0.0  # of device-busy time: operators without known work


def divide(sums: Sequence[float], how: Division) -> tuple[dict[str, float], float, float]:
    """(shares, share of input seen by stacks, share that nothing explains) of RAW sums."""
    total = sum(sums)
    if total <= 0:
        return {}, 0.0, 0.0
    part = dict(zip(RAW, (s / total for s in sums), strict=True))
    shares = dict.fromkeys(SHARES, 0.0)
    for name in ("transfer", "communication", "checkpoint", "logging", "evaluation", "input"):
        shares[name] = part[name]
    loose = part["before_forward"] + part["uncovered"]
    unseen = blind(part["before_forward"], how)
    shares["other"] += unseen
    by_stacks = _loose_by_stacks(loose - unseen, part, how)
    for name in MOVED:
        shares[name] += by_stacks[name]
    work = part["work"] + by_stacks["work"]
    unexplained = 0.0
    if how.device.kind == "cpu":
        unexplained = _cpu_work(work, shares, how)
    else:
        _device_work(work, shares, how)
    shares = {k: max(0.0, v) for k, v in shares.items()}
    return _exact(shares), by_stacks["input"], unexplained


def blind(before_forward: float, how: Division) -> float:
    """Time before the forward that may be the making of batches or not: without a loader only
    stacks could tell, and there are none."""
    unknown = not how.has_loader and how.stacks.samples < MIN_STACK_SAMPLES
    return before_forward if unknown and before_forward >= BLIND else 0.0


def _loose_by_stacks(loose: float, part: dict[str, float], how: Division) -> dict[str, float]:
    """Time without a span: what stacks say of it; the rest is the job's own work."""
    found = dict.fromkeys(MOVED, 0.0)
    seen = how.stacks.shares
    if how.stacks.samples >= MIN_STACK_SAMPLES:
        wanted = {
            name: max(0.0, seen.get(name, 0.0) - part[name])
            for name in ("logging", "checkpoint", "evaluation")
        }
        # Time in the loader is a span already; what is left of `input` is the user's own code
        wanted["input"] = seen.get("input", 0.0)
        most = sum(wanted.values())
        scale = min(1.0, loose / most) if most > 0 else 0.0
        # Under a few per cent of the samples is chance
        found = {k: v * scale if v > STACK_NOISE else 0.0 for k, v in wanted.items()}
    return found | {"work": loose - sum(found.values())}


MIN_STACK_SAMPLES = 20  # of a window of 50
BLIND = 0.10  # of the time; less cannot make a verdict wrong by itself
STACK_NOISE = 0.03


def _cpu_work(work: float, shares: dict[str, float], how: Division) -> float:
    split = how.split
    # Copies "to the device" on a CPU are the host's work
    shares["host"] += shares.pop("transfer")
    shares["transfer"] = 0.0
    if split is None:
        shares["other"] += work
        return work
    shares["compute"] += work * split.compute
    shares["memory"] += work * split.memory
    shares["host"] += work * split.host
    shares["other"] += work * split.unknown
    return work * split.unknown


def _device_work(work: float, shares: dict[str, float], how: Division) -> None:
    """On a device the host's phases overlap with it: only what leaves it idle counts as waiting."""
    busy = how.device.busy_share
    if busy is None:
        shares["other"] += work
        return
    idle = 1.0 - busy
    waits = ("input", "checkpoint", "logging", "evaluation", "transfer", "communication")
    asked = sum(shares[n] for n in waits)
    scale = min(1.0, idle / asked) if asked > 0 else 1.0
    for name in waits:
        shares[name] *= scale
    shares["host"] = max(0.0, idle - asked * scale)
    if how.memory_fraction is None:
        shares["other"] = busy
    else:
        known = busy * (1.0 - how.unknown_fraction)
        shares["memory"] = known * how.memory_fraction
        shares["compute"] = known * (1.0 - how.memory_fraction)
        shares["other"] = busy - known


GRAIN = 2.0**40  # shares are multiples of its inverse, so that sums of them are exact


def _exact(shares: dict[str, float]) -> dict[str, float]:
    """Shares that sum to exactly 1 in any order: the largest takes up the rounding."""
    total = sum(shares.values())
    if not 0 < total < math.inf:  # a damaged file may hold NaN
        return {}
    fixed = {name: round(shares[name] / total * GRAIN) / GRAIN for name in SHARES}
    fixed[max(fixed, key=lambda k: fixed[k])] += 1.0 - sum(fixed.values())
    return fixed
