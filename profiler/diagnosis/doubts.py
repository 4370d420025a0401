"""How sure a verdict is: what holds its confidence down, and what would overturn it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..report import Confidence
from .inconclusive import ENOUGH_STEPS
from .model import RunView
from .rules.common import WORTH
from .statistics import T_999
from .text import NAMES, percent

CLEAR_MARGIN = 0.15  # of wall time, for high confidence
CLOSE_SPLIT = 0.10  # between compute, memory and host: what a captured step differs by chance
STABLE_WINDOWS = 0.8  # of windows that agree, for high confidence
COVERED = 0.7  # of captured operator time with known work
CROWDED = 0.25  # of the usable cores: others slow the job, and not all of its parts alike
CAPTURE_COST = 0.5  # of the captured step, from which its split is only roughly right
MOSTLY_EVALUATION = 0.5  # of the time, beyond which the training part is not what matters
SPLIT = ("compute", "memory", "host")
ORDER: tuple[Confidence, ...] = ("low", "medium", "high")


@dataclass
class Doubts:
    """What holds the confidence down."""

    cap: Confidence = "high"
    texts: list[str] = field(default_factory=list)
    overturned: str | None = None  # why the answer would probably be another one

    def add(self, cap: Confidence, text: str) -> None:
        self.cap = ORDER[min(ORDER.index(self.cap), ORDER.index(cap))]
        self.texts.append(text)


def doubts_of(
    view: RunView, name: str, other: str, *, margin: float, error: float, agree: float
) -> Doubts:
    doubts = Doubts()
    count = len(view.steady.steps)
    sigmas = margin / error if error > 0 else float("inf")
    if sigmas < T_999[min(count, len(T_999)) - 1]:
        doubts.add("low", f"the margin of {percent(margin)} is only {sigmas:.1f} standard errors")
    if margin < CLEAR_MARGIN:
        doubts.add("medium", f"the margin to the next is {percent(max(0.0, margin))}")
    if count < ENOUGH_STEPS:
        if count < 12:
            doubts.add("medium", f"only {count} steady steps")
        else:
            doubts.texts.append(f"only {count} steady steps, all alike")
    if agree < STABLE_WINDOWS:
        cap: Confidence = "medium" if agree >= 0.5 else "low"
        doubts.add(cap, f"only {percent(agree)} of the windows say the same on their own")
    _crowd_doubts(view, name, other, doubts)
    _collective_doubts(view, name, doubts)
    if name in SPLIT:
        _split_doubts(view, name, other, margin, doubts)
    if name == "input" and view.input_by_stacks > view.shares["input"] / 2:
        doubts.add("medium", "the loop has no DataLoader: input was told from stacks alone")
    if not view.on_cpu:
        _device_doubts(view, doubts)
    if view.shares.get("evaluation", 0.0) > MOSTLY_EVALUATION:
        doubts.add("medium", "little of the time is training")
    named = max(v for k, v in view.shares.items() if k not in (name, "other", "evaluation"))
    if named + view.shares["other"] > view.shares[name]:
        doubts.add("low", f"{percent(view.shares['other'])} of the time could not be split")
    lost = {"forward", "backward"} - view.observed
    if lost and name == "host" and not view.has_capture:
        doubts.add("low", "forward and backward were not observed")
    return doubts


def _crowd_doubts(view: RunView, name: str, other: str, doubts: Doubts) -> None:
    crowd, cpus = view.others_cores, view.host.cpus
    if crowd is not None and cpus and crowd > CROWDED * cpus:
        doubts.add("medium", f"other processes used {crowd:.1f} of {cpus} cores meanwhile")
        # They stretch the step's own work at least this much, and waiting not at all
        alone = view.shares[name] * (1.0 - min(1.0, crowd / cpus))
        if name in SPLIT and other not in SPLIT and view.shares[other] > alone:
            doubts.overturned = (
                f"{NAMES[name].capitalize()} takes {percent(view.shares[name])} of the time and "
                f"{NAMES[other]} {percent(view.shares[other])}, but other processes used "
                f"{crowd:.1f} of {cpus} cores: without them {NAMES[other]} would probably lead; "
                "a quieter machine can tell."
            )


def _collective_doubts(view: RunView, name: str, doubts: Doubts) -> None:
    """On a CPU gradients are reduced by threads beside backward: on its cores, in its memory.

    Work that runs far below its ceiling may be stretched by them. What it would take at the
    ceiling, which the ranks of a machine share, is compared with the waits for other ranks.
    """
    waits, split = view.shares["communication"], view.split
    if not view.on_cpu or split is None or name not in ("compute", "memory") or waits < WORTH:
        return
    known = [(op["efficiency"], op["share"]) for op in split.ops
             if op["bound"] == name and op["efficiency"] is not None]  # fmt: skip
    weight = sum(share for _, share in known)
    if not weight:
        return
    reached = sum(efficiency * share for efficiency, share in known) / weight
    if view.shares[name] * min(1.0, reached * max(1, len(view.ranks))) < waits:
        doubts.overturned = (
            f"{NAMES[name].capitalize()} takes {percent(view.shares[name])} of the time and "
            f"{NAMES['communication']} {percent(waits)}, but its operators reach only "
            f"{percent(reached)} of their ceiling: the exchange of gradients beside them probably "
            "stretches them. Fewer exchanges (a larger batch a rank, model.no_sync() in gradient "
            "accumulation) or a run of one rank can tell."
        )


def _split_doubts(view: RunView, name: str, other: str, margin: float, doubts: Doubts) -> None:
    split = view.split
    if split is None:
        return
    if split.presumed:
        doubts.add("low", "this machine's ceilings could not be measured; those four times higher "
                   "or lower than usual ones give the same answer")  # fmt: skip
    elif not split.stable and other in SPLIT:
        doubts.add("low" if margin < CLEAR_MARGIN else "medium",
                   "ceilings off by half would change the answer")  # fmt: skip
    if other in SPLIT and margin < CLOSE_SPLIT:
        doubts.add("low", "one captured step decides between two shares this close")
    if split.covered < COVERED:
        doubts.add(
            "low", f"only {percent(split.covered)} of operator time has known FLOPs or bytes"
        )
    if split.overhead > CAPTURE_COST:
        doubts.add("medium", f"the capture itself cost {percent(split.overhead)} of its step")
    for note in view.ceilings.notes if view.ceilings is not None else ():
        if "other processes" in note:
            doubts.add(
                "medium" if split.sturdy else "low",
                f"while the ceilings were measured, {note}",
            )
        elif "cache" in note and name == "memory":
            doubts.texts.append(note)


def _device_doubts(view: RunView, doubts: Doubts) -> None:
    use = view.device
    if use.busy_share is None:
        doubts.add("low", "the device's utilisation could not be read")
    elif use.dram_share is None and use.tensor_share is None:
        if view.split is None:
            doubts.add("low", "the memory controller's utilisation alone tells memory from "
                       "arithmetic")  # fmt: skip
        doubts.add("medium", "no counters of memory and arithmetic on this device")
