"""The eight measures by which people choose an accelerator, each with how it is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..report import Report
from .attempts import attempt
from .metrics import usd
from .model import Measure
from .sides import Side, price_per_hour

Known = tuple[float | None, str]


def _given(value: float | None, missing: str) -> Known:
    return (None, missing) if value is None else (float(value), "")


def _batch(report: Report) -> Known:
    found = report.memory.largest_batch or {}
    value = found.get("value")
    if isinstance(value, int | float):
        return float(value), str(found.get("method") or "")
    return None, "neither found nor predicted for this run"


def _epoch_usd(report: Report) -> Known:
    price, source = price_per_hour(report)
    if price is None:
        return None, source
    if report.time.epoch_s is None:
        return None, "the length of an epoch is not known"
    return price * report.time.epoch_s / 3600, source


def _run_usd(report: Report) -> Known:
    value = usd(report)
    return value, price_per_hour(report)[1]


def _busy(report: Report) -> Known:
    return _given(report.utilisation.get("device_busy"), "no device was sampled")


MEASURES: tuple[tuple[str, str, Callable[[Report], Known]], ...] = (
    ("samples_per_s", "samples/s",
     lambda r: _given(r.time.samples_per_s, "samples a step are not known")),
    ("epoch_s", "s", lambda r: _given(r.time.epoch_s, "the length of an epoch is not known")),
    ("largest_batch", "samples", _batch),
    ("device_busy", "share", _busy),
    ("peak_bytes", "bytes",
     lambda r: _given(r.memory.device_peak_bytes, "no device memory was sampled")),
    ("usd_per_epoch", "USD", _epoch_usd),
    ("usd_run", "USD", _run_usd),
)  # fmt: skip


def eight(sides: Sequence[Side]) -> list[Measure]:
    """All eight of every run."""
    found = []
    for name, unit, ask in MEASURES:
        known = [ask(side.report) for side in sides]
        found.append(Measure(name, unit, [v for v, _ in known], [how for _, how in known]))
    tried = [attempt(side) for side in sides]
    found.append(Measure("adapting_s", "s", [v for v, _ in tried], [how for _, how in tried]))
    return found
