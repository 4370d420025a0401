"""The one row of a run in table `summary` of a lake: all that `accelprof fleet` asks for.

Amounts that are summed are whole numbers (ms, millionths of a dollar), so that every engine gets
the same sum in whatever order it adds.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from ..accelerators import prices
from ..report import Report

TABLE = "summary"
# Shares in which the device waits, and the bottleneck that each is the sign of. Logging is host
# work; evaluation and what is not explained are not waste.
WAITS = {
    "input": ("input",), "transfer": ("transfer",), "host": ("host", "logging"),
    "communication": ("communication",), "checkpoint": ("checkpoint",),
}  # fmt: skip
MICROS = 1_000_000
HOUR_MS = 3_600_000

# Name and type of each column, as DuckDB writes it.
COLUMNS = {
    "run_id": "VARCHAR", "name": "VARCHAR", "user": "VARCHAR", "host": "VARCHAR",
    "tags": "VARCHAR[]",  # KEY=VALUE
    "state": "VARCHAR", "started_s": "BIGINT", "wall_ms": "BIGINT",
    "device": "VARCHAR", "device_kind": "VARCHAR", "devices": "INTEGER",
    "device_ms": "BIGINT",  # wall time of all its devices together
    "usd_micros": "BIGINT", "price_source": "VARCHAR",  # NULL: no price is known
    "bottleneck": "VARCHAR", "confidence": "VARCHAR", "cause": "VARCHAR", "headline": "VARCHAR",
    "steps": "BIGINT", "samples_per_s": "DOUBLE", "energy_j": "DOUBLE",
    "judged_ms": "BIGINT",  # device_ms of a run with a verdict, else 0
    **{f"lost_{name}_{what}": "BIGINT" for name in WAITS for what in ("ms", "usd_micros")},
    "gain_ms": "BIGINT", "gain_usd_micros": "BIGINT",  # of what the verdict says to mend
}  # fmt: skip
# What the questions need; the rest is there for queries of one's own.
ASKED = {
    name: sql for name, sql in COLUMNS.items()
    if name not in ("state", "wall_ms", "devices", "price_source", "headline", "steps",
                    "samples_per_s", "energy_j")
}  # fmt: skip


def row(report: Report, user: str | None) -> dict[str, Any]:
    """The row of a judged run."""
    run, verdict = report.run, report.verdict
    device = report.devices[0] if report.devices else None
    count, device_ms = _device_time(report)
    usd, source = _price(report, device_ms)
    lost = {name: round(device_ms * part) for name, part in _waits(report).items()}
    gain_ms = round(device_ms * _gain(report))
    found: dict[str, Any] = {
        "run_id": run.id, "name": run.name, "user": user, "host": run.host,
        "tags": [f"{key}={value}" for key, value in sorted(run.tags.items())],
        "state": run.state, "started_s": _seconds(run.started_at),
        "wall_ms": None if run.wall_s is None else round(run.wall_s * 1e3),
        "device": (device.catalogue or device.name) if device else None,
        "device_kind": device.kind if device else None, "devices": count, "device_ms": device_ms,
        "usd_micros": None if usd is None else round(usd * MICROS), "price_source": source,
        "bottleneck": verdict.bottleneck, "confidence": verdict.confidence,
        "cause": verdict.cause, "headline": verdict.headline,
        "steps": report.time.steps_total, "samples_per_s": report.time.samples_per_s,
        "energy_j": report.cost.energy_j,
        "judged_ms": device_ms if _judged(report) else 0,
        "gain_ms": gain_ms, "gain_usd_micros": _micros(usd, gain_ms, device_ms),
    }  # fmt: skip
    for name, ms in lost.items():
        found[f"lost_{name}_ms"] = ms
        found[f"lost_{name}_usd_micros"] = _micros(usd, ms, device_ms)
    return found


def _device_time(report: Report) -> tuple[int, int]:
    """Devices, and their wall time in ms. Where a job had the CPU alone, that is the device."""
    accelerators = sum(device.kind != "cpu" for device in report.devices)
    if report.cost.accelerator_s is not None:
        return max(1, accelerators), round(report.cost.accelerator_s * 1e3)
    return max(1, accelerators), round((report.run.wall_s or 0.0) * 1e3) * max(1, accelerators)


def _price(report: Report, device_ms: int) -> tuple[float | None, str | None]:
    """USD of the run and where the price is from: the report's, else the cheapest list price."""
    if report.cost.usd is not None:
        return report.cost.usd, report.cost.price_source
    known = next((d.catalogue for d in report.devices if d.kind != "cpu" and d.catalogue), None)
    offer = prices.cheapest(known, prices.offers()) if known else None
    if offer is None or offer.usd_per_device_hour is None:
        return None, None
    return offer.usd_per_device_hour * device_ms / HOUR_MS, offer.label


def _judged(report: Report) -> bool:
    return report.verdict.bottleneck != "inconclusive" and bool(report.time.shares)


def _waits(report: Report) -> dict[str, float]:
    """Shares of the steady time in which the device waited; nothing of a run without a verdict."""
    shares = report.time.shares if _judged(report) else {}
    return {name: sum(shares.get(part, 0.0) for part in parts) for name, parts in WAITS.items()}


def _gain(report: Report) -> float:
    """The share of the time that the best advice would save; 0 when there is none to give."""
    if not _judged(report):
        return 0.0
    return max(_savings(report), default=0.0)


def _savings(report: Report) -> Iterator[float]:
    wait = report.verdict.bottleneck.removesuffix("-bound")
    if wait in WAITS:
        yield _waits(report)[wait]
    for finding in report.findings:
        limit = finding.speedup_limit
        if finding.advice and finding.severity != "info" and limit is not None and limit > 1:
            yield 1 - 1 / limit


def _micros(usd: float | None, part_ms: int, whole_ms: int) -> int | None:
    return None if usd is None or not whole_ms else round(usd * MICROS * part_ms / whole_ms)


def _seconds(iso: str | None) -> int | None:
    return None if iso is None else int(datetime.fromisoformat(iso).timestamp())
