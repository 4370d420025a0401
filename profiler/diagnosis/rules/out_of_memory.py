"""What ended for lack of memory: which memory, and who held it. Never guessed from a kill alone."""

from __future__ import annotations

from ...report import Evidence
from ..model import Clear, Judgement, RunView, Undecidable, evidence
from ..text import many, size
from .common import finding

# A kill at this part of the limit is the out-of-memory killer's even where no counter says so
NEAR = 0.90
SIGKILL = 9


def judge(view: RunView) -> Judgement:
    device = [f for f in view.failures if _is_device(f)]
    host = [f for f in view.failures if f not in device and f.get("what") == "memory"]
    kills = sum(int(e["data"].get("count") or 0) for e in view.events if e["kind"] == "oom-kill")
    if device:
        return _device(view, str(device[-1].get("text") or ""))
    if kills or host:
        return _host(view, kills, [str(f.get("text")) for f in host])
    signals = {e["data"].get("signal") for e in view.events if e["kind"] == "end"}
    killed = SIGKILL in signals or any("Kill" in how or how == "9" for how in view.job.workers_died)
    if not killed:
        return Clear()
    part = _part(view)
    if part is None:
        return Undecidable("the job's memory against its limit")
    return _host(view, 0, []) if part >= NEAR else Clear()


def _is_device(failure: dict[str, object]) -> bool:
    text = f"{failure.get('error')} {failure.get('text')}"
    return failure.get("what") == "memory" and ("CUDA" in text or "OutOfMemoryError" in text)


def _part(view: RunView) -> float | None:
    limit = view.host.memory_limit_bytes or view.host.memory_total_bytes
    return view.job.peak_bytes / limit if view.job.peak_bytes and limit else None


def _device(view: RunView, text: str) -> Judgement:
    facts = [evidence(text[:160], "error", text[:160])]
    if view.device.memory_peak_bytes and view.device.memory_total_bytes:
        facts.append(evidence(
            f"the device held {size(view.device.memory_peak_bytes)} of "
            f"{size(view.device.memory_total_bytes)} when last read", "device_peak_bytes",
            view.device.memory_peak_bytes, "B",
        ))  # fmt: skip
    return _out(facts, "Device memory ran out", [
        "a smaller batch with gradient accumulation, bf16, or torch.utils.checkpoint around the "
        "largest blocks; accelprof advise says which accelerators would hold it",
    ])  # fmt: skip


def _host(view: RunView, kills: int, texts: list[str]) -> Judgement:
    facts: list[Evidence] = [evidence(t[:160], "error", t[:160]) for t in texts[:1]]
    if kills:
        facts.append(evidence(
            f"the kernel's out-of-memory killer ended {many(kills, 'process', 'processes')} of "
            "this control group", "oom_kills", kills,
        ))  # fmt: skip
    part, limit = _part(view), view.host.memory_limit_bytes
    if part is not None and view.job.peak_bytes:
        of = "its control group may hold" if limit else "the host has"
        total = limit or view.host.memory_total_bytes or 0
        facts.append(evidence(f"the job held {size(view.job.peak_bytes)}; {of} {size(total)}",
                              "host_memory_part", part))  # fmt: skip
    facts += [evidence(f"{who} held {size(held)}", "holder_bytes", held, "B")
              for who, held in view.job.holders[:3]]  # fmt: skip
    lines = ["hold less on the host: fewer workers (each has its own copy of what it touches), a "
             "smaller prefetch_factor, data memory-mapped instead of loaded"]  # fmt: skip
    if limit:
        lines.append(f"or raise the container's memory limit above {size(limit)}")
    return _out(facts, "Host memory ran out", lines)


def _out(facts: list[Evidence], title: str, lines: list[str]) -> Judgement:
    result = finding("out-of-memory", 1.0, title, facts, lines)
    result.severity, result.speedup_limit = "critical", None
    return result
