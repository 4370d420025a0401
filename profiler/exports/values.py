"""A run's figures and curves under one set of names, for every tool that takes numbers."""

from __future__ import annotations

from collections.abc import Iterator

from ..report import Report
from ..series import Line, Series


def scalars(series: Series) -> Iterator[tuple[float, int, str, float]]:
    """(seconds since the start, x, name, value)."""
    done = 0
    for stretch in series.stretches:
        done += stretch.steps
        for name, value in (("step_ms/p50", stretch.p50_ms), ("step_ms/p95", stretch.p95_ms)):
            if value is not None:
                yield stretch.to_s, done, f"accelprof/{name}", value
        for share, part in stretch.shares.items():
            yield stretch.to_s, done, f"accelprof/share/{share}", part
    for group, lines in (("use", series.use), ("memory", series.memory), ("power", series.power)):
        for line in lines:
            yield from _line(group, line)


def _line(group: str, line: Line) -> Iterator[tuple[float, int, str, float]]:
    name = "".join(c if c.isalnum() else "_" for c in line.name)
    for at_s, value in line.points:
        if value is not None:
            yield at_s, round(at_s), f"accelprof/{group}/{name}", float(value)


def sums(report: Report) -> Iterator[tuple[str, float]]:
    """The report's figures, those that are known."""
    time, memory, cost = report.time, report.memory, report.cost
    found: dict[str, float | None] = {
        "step_ms_p50": time.step_ms.p50, "step_ms_p95": time.step_ms.p95,
        "samples_per_s": time.samples_per_s, "steps_per_s": time.steps_per_s,
        "epoch_s": time.epoch_s, "wall_s": report.run.wall_s,
        "speedup_limit": report.verdict.speedup_limit,
        "device_peak_bytes": memory.device_peak_bytes, "host_peak_bytes": memory.host_peak_bytes,
        "usd": cost.usd, "energy_j": cost.energy_j,
    }  # fmt: skip
    found |= {f"share/{name}": value for name, value in time.shares.items()}
    found |= {f"use/{name}": value for name, value in report.utilisation.items()}
    for name, value in found.items():
        if value is not None:
            yield f"accelprof/{name}", float(value)


def tags(report: Report) -> dict[str, str]:
    """What a list of runs is filtered by."""
    verdict = report.verdict
    found = {"run": report.run.id, "bottleneck": verdict.bottleneck,
             "confidence": verdict.confidence, "headline": verdict.headline}  # fmt: skip
    return found | ({"cause": verdict.cause} if verdict.cause else {})
