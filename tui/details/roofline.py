"""The captured operators under the machine's ceilings, or what of them is known so far."""

from __future__ import annotations

import functools
from typing import Any

from ...hooks import wire
from ...profiler.accelerators import calibration
from ...profiler.diagnosis import sources
from ...profiler.exports import series
from ...profiler.series import Roof
from ...storage import library
from ..model import RoofView
from .moment import Moment


def read(moment: Moment) -> RoofView:
    """As the HTML report has them. While the run lives its captures are not read yet."""
    ops, roof = series.operators(moment.reader, moment.view)
    if ops or not moment.reader.live:
        return RoofView(ops, roof)
    facts = [
        fact
        for process in sources.processes(moment.reader) if process["pid"] == moment.pid
        for fact in process["facts"]
    ]  # fmt: skip
    captures = tuple(int(fact.get("steps") or 1) for fact in _of(facts, wire.FACT_CAPTURE))
    return RoofView((), roof or _measured_before(facts), captures)


def _measured_before(facts: list[dict[str, Any]]) -> Roof | None:
    """What an earlier run or `calibrate` found for this job's Python, torch and threads."""
    torch = next(iter(_of(facts, wire.FACT_TORCH)), {})
    process = next(iter(_of(facts, wire.FACT_PROCESS)), {})
    if torch.get("cuda") or not process.get("executable"):
        return None
    return _kept(str(process["executable"]), torch.get("version"), torch.get("threads"))


@functools.lru_cache(maxsize=8)
def _kept(python: str, torch: str | None, threads: int | None) -> Roof | None:
    found = calibration.usable(calibration.cache_path(library.home(), python, torch, threads))
    if found is None:
        return None
    best = max(found.bytes_per_s, found.read_bytes_per_s or 0.0)
    return Roof(found.flops, best, "calibrated")


def _of(facts: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [fact for fact in facts if fact.get("k") == kind]
