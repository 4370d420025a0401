"""The report's plain figures: times, utilisation, memory, devices, quality."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from ...hooks import wire
from ..report import (
    Device,
    Gap,
    Hotspot,
    Hotspots,
    Memory,
    OpSpot,
    Quality,
    RunInfo,
    StepMs,
    Time,
)  # fmt: skip
from .model import PHASES, RunView, StackShares
from .rules.memory_growth import growth
from .stacks import PART_OF
from .statistics import quantile
from .steady import batches_a_step
from .thinned import samples_of

# What one span costs the training thread within a real step, where its code is cold (measured
# 42 us a step of 6 spans on a 2-core virtual machine; 1 us in a loop of nothing else)
SPAN_COST_S = 7e-6
MFU_COVERED = 0.5  # of captured operator time with known work: under it MFU would be a guess
NOTED_OVERHEAD, SHORT_RUN_S = 0.05, 60.0  # the recorder starts and judges in 1 to 3 s of CPU
LEAST_FOR_P95 = 20  # steps: of fewer it is the longest one
SHOWN = 0.05  # of wall time, from which lines of code that make input are worth showing


def iso(t_ns: int | None) -> str | None:
    """UTC, to the millisecond."""
    if not t_ns:
        return None
    return datetime.fromtimestamp(t_ns / 1e9, UTC).isoformat(timespec="milliseconds")


def run_info(view: RunView) -> RunInfo:
    run = view.run
    start, end = run.get("started_ns"), run.get("ended_ns")
    wall = ((end or view.now_ns) - start) / 1e9 if start else None
    git = {"commit": run["git_commit"], "dirty": run["git_dirty"]} if run.get("git_commit") else {}
    tags = run.get("tags")
    state = run.get("state")
    known = ("finished", "failed", "killed", "lost", "running")
    return RunInfo(
        id=run.get("id") or "", name=run.get("name") or "", command=list(run.get("command") or []),
        cwd=run.get("cwd") or "", host=run.get("host") or "", started_at=iso(start),
        ended_at=iso(end), wall_s=wall, exit_status=run.get("exit_status"),
        state=state if state in known else "lost",
        tags=dict(tags) if isinstance(tags, dict) else {},
        note=run.get("note"), git=git,
        attached_pid=(run.get("settings") or {}).get("attached_pid"),
        environment=run.get("environment") or {},
    )  # fmt: skip


def time(view: RunView) -> Time:
    steps, whole = view.steady.steps, view.steady.whole
    durations = [s.duration_ns / 1e6 for s in steps]
    total_s = (whole.duration_ns if whole else view.steady.duration_ns) / 1e9
    own, times = whole.samples if whole else samples_of(steps), view.samples_times
    samples = own * times if own is not None and times is not None else None
    count = view.steady.count
    mean = total_s * 1e3 / count if count else None
    p50 = quantile(durations, 0.5)
    p95 = quantile(durations, 0.95) if count >= LEAST_FOR_P95 else None
    not_observed = [p for p in PHASES if p not in view.observed] if view.steps else []
    return Time(
        steps=count, ranks=max(1, len(view.ranks)),
        step_ms=StepMs(
            p50=whole.p50_ms if whole else p50, p95=whole.p95_ms if whole else p95, mean=mean
        ),
        samples_per_s=samples / total_s if samples is not None and total_s else None,
        steps_per_s=count / total_s if total_s else None,
        epoch_s=_epoch_s(view, mean), shares=view.shares, steps_total=view.steps_total,
        warmup_steps=view.steady.warmup, not_observed=not_observed,
    )  # fmt: skip


def _epoch_s(view: RunView, mean_ms: float | None) -> float | None:
    """From one epoch's first step to the next; else the loader's batches times the step."""
    starts = view.epoch_starts
    if len(starts) >= 2:
        whole = [(b - a) / 1e9 for a, b in pairwise(starts)]
        return quantile(whole, 0.5)
    loader = view.loader
    if loader is None or not loader.length or mean_ms is None:
        return None
    return loader.length / batches_a_step(view.steady.steps) * mean_ms / 1e3


def utilisation(view: RunView) -> dict[str, float | None]:
    use, cpus = view.device, view.host.cpus
    mfu = _mfu(view)
    return {
        "device_busy": use.busy_share, "sm": use.sm_share, "tensor": use.tensor_share,
        "memory_bandwidth": use.dram_share, "mfu": mfu,
        "cpu_job": view.job_cores / cpus if view.job_cores is not None and cpus else None,
        "cpu_job_cores": view.job_cores, "cpu_host": view.host.cpu_share,
        "cpu_power_w": view.host.power_w,
        "power_w": use.power_w, "energy_j": use.energy_j,
    }  # fmt: skip


def _mfu(view: RunView) -> float | None:
    """Captured FLOPs of a step at the peak of the precision they ran in, over the step's time.

    None when the peak of a precision is not known, or too little of the work was counted.
    """
    if view.split is None or view.ceilings is None or not view.step_s:
        return None
    if not view.split.flops or view.split.covered < MFU_COVERED:
        return None
    peaks = view.ceilings.flops
    if any(precision not in peaks for precision in view.split.flops):
        return None
    floor_s = sum(count / peaks[name] for name, count in view.split.flops.items())
    ranks = 1 if view.on_cpu else max(1, len(view.used_devices)) / max(1, len(view.ranks))
    return floor_s / view.step_s / ranks


def memory(view: RunView) -> Memory:
    rate = growth(view.job.main_rss)
    return Memory(
        device_peak_bytes=view.device.memory_peak_bytes,
        device_total_bytes=view.device.memory_total_bytes, host_peak_bytes=view.job.peak_bytes,
        growth_bytes_per_step=rate * view.step_s if rate and view.step_s else None,
    )  # fmt: skip


def devices(view: RunView, rows: Sequence[tuple[Any, ...]]) -> list[Device]:
    """The devices of the run; the CPU where there is no other or the job used no other."""
    limits: dict[str, Any] = {}
    if view.ceilings is not None:
        limits = {
            "flops": view.ceilings.flops, "bytes_per_s": view.ceilings.bytes_per_s,
            "source": view.ceilings.source,
        }  # fmt: skip
    found = [
        Device(index=i, name=name or "", kind=kind, catalogue=catalogue, memory_bytes=held,
               ceilings=limits if (kind == "cpu") == view.on_cpu else {})
        for i, name, kind, catalogue, held in rows if kind in ("gpu", "tpu", "cpu")
    ]  # fmt: skip
    if view.on_cpu and not any(d.kind == "cpu" for d in found):
        environment = view.run.get("environment") or {}
        name = environment.get("cpu") or environment.get("cpu_model") or "CPU"
        found.append(
            Device(
                index=len(found),
                name=str(name),
                kind="cpu",
                catalogue=None,
                memory_bytes=view.host.memory_total_bytes,
                ceilings=limits,
            )
        )
    return found


def hotspots(view: RunView) -> Hotspots:
    """Where input is made (in the workers when they were looked at), and the host's own lines."""
    ops = view.split.ops if view.split else ()
    made: list[Hotspot] = []
    if view.shares.get("input", 0.0) >= SHOWN:
        made = _spots(view.worker_stacks, *view.worker_stacks.hot)
        made = made or _spots(view.stacks, "loader", "in-loader", "input")
    return Hotspots(
        input=made,
        host=_spots(view.stacks, "user", "model", "step"),
        ops=[OpSpot(o["name"], o["share"], _bound(o["bound"]), o["efficiency"]) for o in ops],
    )  # fmt: skip


def _spots(seen: StackShares, *categories: str) -> list[Hotspot]:
    found: dict[str, float] = {}
    weight = sum(seen.shares.get(c, 0.0) for c in {PART_OF.get(c, c) for c in categories}) or 1.0
    for category in categories:
        part = seen.shares.get(PART_OF.get(category, category), 0.0) / weight
        for place, share in seen.hot.get(category, []):
            found[place] = found.get(place, 0.0) + share * part
    ranked = sorted(found.items(), key=lambda kv: -kv[1])[:5]
    return [Hotspot(where=place, share=share) for place, share in ranked]


def _bound(text: str) -> Any:
    return text if text in ("compute", "memory", "latency") else "unknown"


def quality(
    view: RunView, processes: Sequence[dict[str, Any]], gaps: Sequence[tuple[str, str]],
) -> Quality:  # fmt: skip
    lost = sum(p["spans_lost"] or 0 for p in processes)
    notes = list(view.notes)
    if view.split is not None and view.split.overhead > 0.05:
        notes.append(f"the capture cost {view.split.overhead:.0%} of its step (taken off)")
    if view.steps_total > len(view.steps):
        one_by_one = f"{len(view.steps)} of {view.steps_total} steps were looked at, evenly spread"
        whole = view.steady.whole
        exact = "; counts, shares and step times are of all" if whole and whole.exact else ""
        notes.append(one_by_one + exact)
    if view.outside is not None:
        notes.append(
            f"shares are of {view.outside.samples} stack samples in {view.outside.windows} "
            "windows, not of measured steps"
        )
    overhead, remark = _overhead(view, processes)
    notes += [remark] if remark else []
    source = None
    if view.split is not None:
        source = "captured operators"
    if not view.on_cpu and view.device.dram_share is not None:
        source = "hardware counters"
    elif (
        view.shares
        and not view.on_cpu
        and view.split is None
        and view.device.memory_busy_share is not None
    ):
        source = "memory-controller utilisation (proxy)"
    hooks = _hooks(view, processes, lost)
    if hooks == "partial" and (why := _why_partial(view, processes)):
        gaps = [("hooks", why), *gaps]
    return Quality(
        hooks=hooks, events_lost=lost,
        overhead_fraction=overhead,
        gaps=[Gap(metric=m, reason=r) for m, r in gaps], notes=notes, memory_or_compute=source,
        operators_covered=view.split.covered if view.split else None,
    )  # fmt: skip


def _proxy(view: RunView) -> bool:
    return bool(view.shares) and view.device.memory_busy_share is not None


def _hooks(view: RunView, processes: Sequence[dict[str, Any]], lost: int) -> Any:
    python = [p for p in processes if p["hooks"] is not None]
    loaded = [p for p in python if p["hooks"] == "loaded"]
    if not loaded or view.imported:  # another tool recorded it
        return "none"
    off = any(f.get("k") == "hook_off" for p in loaded for f in p["facts"])
    return "partial" if off or lost or not view.steps else "full"


def _why_partial(view: RunView, processes: Sequence[dict[str, Any]]) -> str:
    """What a user can do about hooks that saw only a part; lost events are told as such."""
    for process in processes:
        for fact in process["facts"]:
            if fact.get("k") == "hook_off":
                return f"the hook {fact.get('hook')} switched itself off: {fact.get('error')}"
    if view.steps:
        return ""
    if not any(f.get("k") == wire.FACT_TORCH for p in processes for f in p["facts"]):
        return "no torch was imported"
    return "torch was imported, but no step was seen"


def _overhead(view: RunView, processes: Sequence[dict[str, Any]]) -> tuple[float | None, str]:
    """Hook time on the training thread plus the profiler's CPU over the machine's, of wall time.

    With a remark where the recorder's own start and end outweigh a short run.
    """
    run = view.run
    start = run.get("started_ns")
    wall = ((run.get("ended_ns") or view.now_ns) - start) / 1e9 if start else 0.0
    used = (run.get("quality") or {}).get("profiler_cpu_s")
    if wall <= 0 or not isinstance(used, int | float):
        return None, ""
    spans = max((p["spans"] or 0 for p in processes), default=0)
    part = spans * SPAN_COST_S / wall + float(used) / wall / max(1, view.host.cpus or 1)
    remark = ""
    if part > NOTED_OVERHEAD and wall < SHORT_RUN_S:
        remark = (
            f"the recorder used {used:.1f} s of CPU beside a run of {wall:.1f} s: nearly all of it "
            "to start and to judge, which costs a longer run no more"
        )
    return min(1.0, part), remark
