"""Accelerators that are there and do nothing for this job."""

from __future__ import annotations

from ..hardware import TOUCHED, Accelerator
from ..model import Clear, Judgement, RunView, Undecidable, evidence
from ..text import many, percent
from .common import finding

IDLE = 0.05  # of the time: a device that serves a display alone is busy 1-3 %


def judge(view: RunView) -> Judgement:
    if view.imported:
        return _in_a_log(view)
    if not view.devices or not view.steps:
        return Clear()
    used = view.used_devices
    if not used:
        return _none_used(view)
    read = [d for d in used if d.busy_share is not None]
    if not read:
        return Undecidable("utilisation of the device")
    idle = [d for d in read if (d.busy_share or 0.0) < IDLE]
    if idle:
        return _almost_idle(idle)
    spare = [d for d in view.devices if not d.used and _visible(d) and not _others_use(view, d)]
    return _spare(used, spare) if spare else Clear()


def _in_a_log(view: RunView) -> Judgement:
    """A log of all devices of a host. Of a job under accelprof only those that it sees count."""
    idle = [d for d in view.devices if d.busiest is not None and d.busiest <= TOUCHED]
    if not idle:
        return Clear()
    total = len(view.devices)
    names = ", ".join(f"{d.kind} {d.index}" for d in idle[:8])
    facts = [evidence(f"{len(idle)} of {many(total, 'device')} never worked: {names}",
                      "idle_devices", len(idle))]  # fmt: skip
    return finding("idle-device", len(idle) / total, "Some devices are idle", facts,
                   ["use them, or ask for fewer devices"])  # fmt: skip


def _almost_idle(idle: list[Accelerator]) -> Judgement:
    worst = min(idle, key=lambda d: d.busy_share or 0.0)
    busy = worst.busy_share or 0.0
    facts = [
        evidence(f"{d.kind.upper()} {d.index} ({d.name}) is busy {percent(d.busy_share or 0.0)} of "
                 "the time", "device_busy", d.busy_share)
        for d in idle
    ]  # fmt: skip
    return finding("idle-device", 1.0 - busy, "The device is almost idle", facts,
                   ["check that the model and its batches are on the device, and see what takes "
                    "the time instead"])  # fmt: skip


def _spare(used: tuple[Accelerator, ...], spare: list[Accelerator]) -> Judgement:
    total = len(used) + len(spare)
    names = ", ".join(f"{d.kind.upper()} {d.index}" for d in spare)
    facts = [evidence(f"{names} never ran anything for this job, which sees {total} devices",
                      "idle_devices", len(spare))]  # fmt: skip
    result = finding(
        "idle-device", len(spare) / total, f"{many(len(spare), 'device')} of {total} stay idle",
        facts, [f"torchrun --nproc-per-node={total} with DistributedDataParallel uses all of them; "
                f"or ask for {many(len(used), 'device')} only"],
    )  # fmt: skip
    result.speedup_limit = float(total) / len(used)
    return result


def _none_used(view: RunView) -> Judgement:
    if any(e["kind"] == "cuda-visible" and e["data"].get("devices") == [] for e in view.events):
        return Clear()  # the job hides them from itself
    seen = [d for d in view.devices if _visible(d) and d.readings]
    if not seen:
        return Undecidable("which devices the job may use")
    environment = view.run.get("environment") or {}
    facts = [evidence(f"{seen[0].name} is here and never ran anything for this job", "device_busy",
                      0.0)]  # fmt: skip
    if environment.get("torch") and not environment.get("cuda"):
        facts.append(evidence(f"torch {environment['torch']} is built without CUDA", "torch",
                              str(environment["torch"])))  # fmt: skip
        lines = ["install the torch build for this GPU (pytorch.org, \"Get started\"), then "
                 "model.to(\"cuda\")"]  # fmt: skip
    else:
        lines = ['model.to("cuda") and each batch .to("cuda"); torch.cuda.is_available() must be '
                 "true"]  # fmt: skip
    result = finding("idle-device", 1.0, "The job runs on the CPU beside an idle GPU", facts, lines)
    result.severity, result.speedup_limit = "warning", None
    return result


def _visible(device: Accelerator) -> bool:
    """Whether the job's CUDA_VISIBLE_DEVICES has it; other vendors' devices count as visible."""
    return device.details.get("cuda_ordinal") is not None or "driver" not in device.details


def _others_use(view: RunView, device: Accelerator) -> bool:
    return any(
        e["kind"] == "device-processes" and e["data"].get("device") == device.index
        and e["data"].get("processes")
        for e in view.events
    )  # fmt: skip
