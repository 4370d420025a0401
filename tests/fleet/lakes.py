"""Lakes of many runs, made by rule: what stands in them can be worked out again in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

from accelprof.profiler.fleet.row import COLUMNS, HOUR_MS, WAITS

MONDAY_S = 1_767_571_200  # 2026-01-05, a Monday
USERS, HOSTS = ("ada", "grace", None), 50
BOTTLENECKS = ("input-bound", "compute-bound", "host-bound", "inconclusive")
PRICES = (2_990_000, None)  # USD micros an hour and device


def rows(count: int) -> list[dict[str, Any]]:
    """Runs of an hour each, a new one every 100 minutes."""
    return [_row(number) for number in range(count)]


def _row(at: int) -> dict[str, Any]:
    bottleneck, price = BOTTLENECKS[at % 4], PRICES[at % 5 == 0]
    devices = (1, 8)[at % 3 == 0]
    device_ms, judged = devices * HOUR_MS, bottleneck != "inconclusive"
    waits = {name: (at * (7 + place) % 200) / 1000 for place, name in enumerate(WAITS)}
    lost = {name: round(device_ms * part) if judged else 0 for name, part in waits.items()}
    gain = lost.get(bottleneck.removesuffix("-bound"), 0)

    def usd(ms: int) -> int | None:
        return None if price is None else round(price * ms / HOUR_MS)

    found: dict[str, Any] = dict.fromkeys(COLUMNS)
    found |= {
        "run_id": f"2026-{at:06}", "name": f"job{at % 20}", "user": USERS[at % 3],
        "host": f"node-{at % HOSTS}", "state": "finished", "started_s": MONDAY_S + at * 6000,
        "tags": [[], ["team=vision"], ["team=text", "lr=3"]][at % 3], "wall_ms": HOUR_MS,
        "device": "h100-sxm-80gb", "device_kind": "cpu" if at % 7 == 0 else "gpu",
        "devices": devices, "device_ms": device_ms, "judged_ms": device_ms if judged else 0,
        "usd_micros": usd(device_ms), "bottleneck": bottleneck, "confidence": "high",
        "gain_ms": gain, "gain_usd_micros": usd(gain), "steps": 1000, "samples_per_s": 176.5,
    }  # fmt: skip
    for name, ms in lost.items():
        found |= {f"lost_{name}_ms": ms, f"lost_{name}_usd_micros": usd(ms)}
    return found


def write(lake: Path, count: int) -> None:
    """A file a run, in Hive's layout."""
    with duckdb.connect() as connection:
        columns = ", ".join(f'"{name}" {sql}' for name, sql in COLUMNS.items())
        connection.execute(f"CREATE TABLE made ({columns})")
        with connection.appender("made") as appender:
            for row in rows(count):
                appender.append_row(*(row[name] for name in COLUMNS))
        for at in range(0, count, 500):  # each open partition holds a buffer
            place = str(lake / "summary").replace("'", "''")
            connection.execute(
                f"COPY (SELECT *, run_id AS run, host AS node FROM made LIMIT 500 OFFSET {at}) "
                f"TO '{place}' (FORMAT parquet, PARTITION_BY (run, node), "
                "OVERWRITE_OR_IGNORE)"
            )
