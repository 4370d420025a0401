"""What `accelprof fleet` says: hours, what they were lost to, and which runs to mend first."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from .engines import Engine
from .queries import MONDAY_S, WEEK_S, Queries
from .row import HOUR_MS, MICROS, WAITS


class Lost(msgspec.Struct):
    """Time in which the devices of a group waited, by what they waited for."""

    group: str
    bottleneck: str
    accelerator_hours: float
    usd: float | None
    share: float  # of the group's hours


class Fix(msgspec.Struct):
    """A run, and what its best advice would have saved."""

    run: str
    gain_usd: float | None
    gain_accelerator_hours: float
    accelerator_hours: float
    name: str | None
    user: str | None
    host: str | None
    device: str | None
    bottleneck: str | None
    confidence: str | None
    cause: str | None
    started_at: str | None


class Week(msgspec.Struct):
    """From a Monday on."""

    week: str
    runs: int
    accelerator_hours: float
    lost_hours: float
    lost_share: float | None
    usd: float | None


class Fleet(msgspec.Struct, kw_only=True):
    """The answer, with the keys of `--json`."""

    lake: str
    runs: int
    accelerator_hours: float
    cpu_hours: float  # the part of them on hosts whose only device was the CPU
    judged_hours: float  # the part with a verdict; only there is loss known
    usd: float | None
    by: str | None
    lost: list[Lost]
    fix_first: list[Fix]
    weeks: list[Week]
    engine: str


def ask(engine: Engine, lake: str, *, by: str | None = None, since_s: int | None = None) -> Fleet:
    """Asks all questions of an engine."""
    queries = Queries(engine.dialect, since_s=since_s)

    def rows(name: str) -> list[dict[str, Any]]:
        keys = _FIX if name == "fix_first" else _SUMMED
        return [dict(zip(keys, row, strict=True)) for row in engine.rows(queries.sql(name, by))]

    kinds = rows("kinds")
    known = [row["usd_micros"] for row in kinds if row["usd_micros"] is not None]
    return Fleet(
        lake=lake, engine=engine.label, by=by,
        runs=sum(row["runs"] for row in kinds),
        accelerator_hours=sum(_hours(row["device_ms"]) for row in kinds),
        cpu_hours=sum(_hours(row["device_ms"]) for row in kinds if row["part"] == "cpu"),
        judged_hours=sum(_hours(row["judged_ms"]) for row in kinds),
        usd=sum(known) / MICROS if known else None,
        lost=[one for row in _by_loss(rows("groups")) for one in _losses(row)],
        fix_first=[_fix(row) for row in rows("fix_first")],
        weeks=[_week(row) for row in rows("weeks")],
    )  # fmt: skip


_SUMMED = ("part", "runs", "device_ms", "judged_ms", "usd_micros",
           *(f"lost_{name}_{what}" for name in WAITS for what in ("ms", "usd_micros")))  # fmt: skip
_FIX = ("run_id", "name", "user", "host", "device", "bottleneck", "confidence", "cause",
        "started_s", "gain_usd_micros", "gain_ms", "device_ms")  # fmt: skip


def _hours(ms: int | None) -> float:
    return (ms or 0) / HOUR_MS


def _usd(micros: int | None) -> float | None:
    return None if micros is None else micros / MICROS


def _lost_ms(row: dict[str, Any]) -> int:
    return sum(row[f"lost_{name}_ms"] or 0 for name in WAITS)


def _by_loss(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(groups, key=lambda row: (-_lost_ms(row), str(row["part"])))


def _losses(row: dict[str, Any]) -> Iterator[Lost]:
    """A group's losses, the largest first."""
    for name in sorted(WAITS, key=lambda name: -(row[f"lost_{name}_ms"] or 0)):
        if ms := row[f"lost_{name}_ms"]:
            yield Lost(
                group=str(row["part"]), bottleneck=f"{name}-bound", accelerator_hours=_hours(ms),
                usd=_usd(row[f"lost_{name}_usd_micros"]), share=ms / row["device_ms"],
            )  # fmt: skip


def _fix(row: dict[str, Any]) -> Fix:
    texts = ("name", "user", "host", "device", "bottleneck", "confidence", "cause")
    started = row["started_s"]
    return Fix(
        run=row["run_id"], gain_usd=_usd(row["gain_usd_micros"]),
        gain_accelerator_hours=_hours(row["gain_ms"]), accelerator_hours=_hours(row["device_ms"]),
        started_at=None if started is None else datetime.fromtimestamp(started, UTC).isoformat(),
        **{name: row[name] for name in texts},
    )  # fmt: skip


def _week(row: dict[str, Any]) -> Week:
    monday = datetime.fromtimestamp(row["part"] * WEEK_S - MONDAY_S, UTC).date()
    lost, used = _lost_ms(row), row["device_ms"] or 0
    return Week(
        week=monday.isoformat(), runs=row["runs"], accelerator_hours=_hours(used),
        lost_hours=_hours(lost), lost_share=lost / used if used else None,
        usd=_usd(row["usd_micros"]),
    )  # fmt: skip
