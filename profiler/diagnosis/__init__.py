"""From a recorded run to its verdict: read (view), divide (shares, roofline), judge (rules)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from ..report import Report
from . import figures, host_jobs, sources, verdict, view, windows
from .cost import cost
from .model import RunView
from .view import Reader

_DEVICES = "SELECT device, name, kind, catalogue, memory_bytes FROM device ORDER BY device"
_GAPS = (
    "SELECT DISTINCT source || coalesce('.' || metric, ''), reason FROM gap ORDER BY 1 LIMIT 100"
)


def diagnose(reader: Reader, *, now_ns: int | None = None) -> Report:
    """The report of a run: live, finished, without hooks or empty."""
    return examine(reader, now_ns=now_ns)[0]


def examine(
    reader: Reader, *others: Reader, now_ns: int | None = None
) -> tuple[Report, RunView]:  # fmt: skip
    """The report and what it was judged from: a live view divides its own windows with that.

    `others`: the run files of the same job's other nodes.
    """
    seen = view.load(reader, now_ns if now_ns is not None else time.time_ns(), others)
    fired = verdict.fire(seen)
    readers = (reader, *others)
    processes = [process for one in readers for process in sources.processes(one)]
    devices = [row for one in readers for row in one.rows(_DEVICES)]
    if others:
        devices = [(number, *row[1:]) for number, row in enumerate(devices)]
    gaps = [row for one in readers for row in one.rows(_GAPS)]
    ordered = sorted(
        (f for _, f in fired), key=lambda f: ("critical", "warning", "info").index(f.severity)
    )
    report = Report(
        run=figures.run_info(seen), devices=figures.devices(seen, devices),
        verdict=verdict.judge(seen, fired), time=figures.time(seen),
        utilisation=figures.utilisation(seen), memory=figures.memory(seen),
        phases_over_time=windows.over_time(seen), findings=ordered,
        hotspots=figures.hotspots(seen), ranks=list(seen.ranks), cost=cost(seen),
        quality=figures.quality(seen, processes, [(str(m), str(r)) for m, r in gaps]),
        jobs=host_jobs.jobs(reader) if seen.of_host else [],
    )  # fmt: skip
    return report, seen


def window_rows(report: Report, started_ns: int) -> list[dict[str, Any]]:
    """The report's windows as rows of table `window`."""
    return [
        {
            "from_ns": started_ns + int(w.from_s * 1e9), "to_ns": started_ns + int(w.to_s * 1e9),
            "bottleneck": w.bottleneck, "confidence": report.verdict.confidence,
            "shares": msgspec.json.encode(w.shares).decode(),
        }
        for w in report.phases_over_time
    ]  # fmt: skip


def finding_rows(report: Report) -> list[dict[str, Any]]:
    """The report's findings as rows of table `finding`."""
    return [
        {"id": f.id, "severity": f.severity, "title": f.title,
         "body": msgspec.json.encode(f).decode()}
        for f in report.findings
    ]  # fmt: skip


__all__: Sequence[str] = ["diagnose", "examine", "finding_rows", "window_rows"]
