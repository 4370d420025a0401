"""Why there is no verdict, and what to collect for one."""

from __future__ import annotations

from ..report import Evidence, Verdict
from .competing import competing
from .model import RunView, evidence
from .text import NAMES, percent, size

ENOUGH_STEPS, FEWEST_STEPS = 20, 8
# A trace of another tool has 3-6 steps, chosen after warm-up and measured in full
FEWEST_IMPORTED = 4


NO_TIME = "The steps of this run have no duration: the file is damaged, or its clock stood still."


def verdict(why: str, facts: list[Evidence]) -> Verdict:
    return Verdict(
        bottleneck="inconclusive", confidence="low", headline=why, cause=None, evidence=facts,
        speedup_limit=None, against=[],
    )  # fmt: skip


def of_host(view: RunView) -> str:
    busy = view.device.busy_share
    use = f"; the devices were busy {percent(busy)} of the time" if busy is not None else ""
    return f"The recording of a host, not of one job{use}: `accelprof run` judges a job."


def too_short(view: RunView) -> str:
    count = len(view.steady.steps)
    if view.imported and view.steps:
        busy = view.device.busy_share
        device = "no device activity" if busy is None else f"the device is busy {percent(busy)}"
        return f"The trace holds {count} step marks ({device}): {FEWEST_IMPORTED} are needed."
    if view.imported:
        note = next(iter(view.notes), "nothing in it marks a step")
        return (
            f"No steps to judge: {note}. A whole trace with step marks, or the job under "
            "`accelprof run`, can tell."
        )
    if not view.steps:
        reason = next((n for n in view.notes if n), None)
        if view.live and not reason:
            return "No step yet."
        return "No steps were seen" + (f": {reason}." if reason else
               ": no PyTorch training or inference loop ran with the hooks.")  # fmt: skip
    return (
        f"Only {count} steady steps (of {len(view.steps)}): at least {FEWEST_STEPS} are needed, "
        f"{ENOUGH_STEPS} for a sure answer; let the job run longer."
    )


def device_facts(view: RunView) -> list[Evidence]:
    """What can be said of the devices without a step."""
    use = view.device
    facts = []
    if use.busy_share is not None:
        facts.append(evidence(
            f"{use.name or 'the device'} is busy {percent(use.busy_share)} of the time",
            "device_busy", use.busy_share,
        ))  # fmt: skip
    if use.memory_peak_bytes is not None:
        total = f" of {size(use.memory_total_bytes)}" if use.memory_total_bytes else ""
        facts.append(evidence(f"its memory is used up to {size(use.memory_peak_bytes)}{total}",
                              "device_peak_bytes", use.memory_peak_bytes, "B"))  # fmt: skip
    if use.power_w is not None:
        facts.append(evidence(f"it draws {use.power_w:.0f} W on average", "power_w", use.power_w,
                              "W"))  # fmt: skip
    throttled = max((d.throttled_share or 0.0 for d in view.used_devices), default=0.0)
    if throttled:
        facts.append(evidence(
            f"power or heat held its clock in {percent(throttled)} of the samples under load",
            "throttled_share", throttled,
        ))  # fmt: skip
    return facts


def all_evaluation(part: float) -> str:
    return f"Evaluation takes {percent(1.0 - part)} of the time: too little is training to judge."


def only_loading(view: RunView) -> str:
    own, waits = percent(view.shares["other"]), percent(view.shares["input"])
    return (
        f"No model was called: {own} of the time is the loop's own work on its batches, "
        f"{waits} is waiting for them."
    )


def unsplit(view: RunView) -> str:
    share = percent(view.shares["other"])
    if not view.on_cpu:
        return (
            f"{share} of the time is spent on the device, but nothing says whether memory or "
            "arithmetic limits it: no hardware counters, no captured operators of known work. "
            + _for_device_work(view)
        )
    if not view.division.has_loader and not view.stacks.samples:
        return (
            f"{share} of the time is the loop's own code, in part before the forward: without a "
            "DataLoader only stacks tell input from other work (--stacks auto)."
        )
    if not view.has_capture:
        return (
            f"{share} of the time is the step's own work, but no operators were captured to "
            "split it: run with --capture auto, or ask for one with `accelprof capture`"
        )
    if view.ceilings is None and view.split is None:
        return f"{share} of the time is the step's own work, but {_no_ceilings(view)}."
    if view.split is not None and view.split.stalled > view.split.unknown / 2:
        return _stalled(view, share)
    return f"{share} of the time is in operators whose FLOPs and bytes are not known."


def _for_device_work(view: RunView) -> str:
    if view.imported:
        return "A trace of torch.profiler.profile(record_shapes=True) tells more."
    if not view.has_capture:
        return "Run with --capture auto, or ask for operators with `accelprof capture`."
    return "Counters tell, of NVML from Hopper on or of a dcgm-exporter (ACCELPROF_DCGM_URL)."


def _no_ceilings(view: RunView) -> str:
    if view.imported:
        return "the ceilings of the machine that recorded the trace are not known"
    return (
        "this machine's ceilings are not known: run `accelprof calibrate --python PYTHON` with the "
        "job's Python, then the job again"
    )


def _stalled(view: RunView, share: str) -> str:
    """Operators far above their floor: who had the cores."""
    crowd, found = view.others_cores, competing(view)
    text = (
        f"{share} of the time is in operators that took over 50 times what memory and "
        "arithmetic need"
    )
    if found is not None:
        also = f"; other processes used {crowd:.1f} more" if crowd and crowd >= 0.1 else ""
        return (
            f"{text}: {found.text} (cpu-oversubscribed{also}). Run it again with "
            f"OMP_NUM_THREADS={found.fit}."
        )
    others = f" (other processes used {crowd:.1f} cores)" if crowd else ""
    return f"{text}: their threads waited for cores{others}; a quieter machine can tell."


def too_close(name: str, other: str, margin: float, needed: float, view: RunView) -> str:
    """`needed`: the margin that is no chance."""
    count = len(view.steady.steps)
    more = "a trace of more steps" if view.imported else "a longer run"
    if margin < needed:
        why = f"which may be chance: over {count} steady steps it takes {percent(needed)}"
    else:
        why = f"but not in every part of only {count} steady steps"
    return (
        f"{NAMES[name].capitalize()} leads {NAMES[other]} by {percent(max(0.0, margin))} of the "
        f"time, {why}; {more} may tell."
    )


def changing(how: str) -> str:
    return f"No one answer fits the whole run, which changes: {how}. Each part stands on its own."


def share_facts(view: RunView) -> list[Evidence]:
    ranked = sorted(view.shares.items(), key=lambda kv: -kv[1])
    return [
        evidence(f"{NAMES[k]}: {percent(v)}", f"{k}_share", v) for k, v in ranked[:4] if v > 0.01
    ]
