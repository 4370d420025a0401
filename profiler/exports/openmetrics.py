"""Runs that are being recorded as OpenMetrics, by Prometheus' own client (an extra).

Totals are counters over the whole run, so that a query chooses its own window; readings of devices
and host are the newest of the last seconds, and absent when there is none.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...storage import library
from ...storage.reader import BadRunFile, QueryError, RunReader, open_run
from ..errors import UserError

NEWEST = 50  # runs that are looked at for those alive
FRESH_NS = 10 * 10**9
MINUTE_NS = 60 * 10**9
PHASES = (
    "data_wait", "iterator", "h2d", "forward", "backward", "optimizer", "checkpoint", "logging",
    "evaluation", "collective", "pre_forward", "gap",
)  # fmt: skip
# (metric, what it is, column): the newest reading of each device
DEVICE = (
    ("device_busy_ratio", "Time in which the device ran something", "busy_share"),
    ("device_memory_used_bytes", "Memory in use", "memory_used_bytes"),
    ("device_memory_bytes", "Memory of the device", "memory_total_bytes"),
    ("device_power_watts", "Power", "power_w"),
    ("device_temperature_celsius", "Temperature", "temperature_c"),
)
HOST = (
    ("host_cpu_ratio", "Usable CPUs busy", "cpu_share"),
    ("host_memory_used_bytes", "Memory in use", "memory_used_bytes"),
    ("host_memory_bytes", "Memory of the host", "memory_total_bytes"),
)
# name, kind, help, label names, [(label values, value)]
_Values = list[tuple[tuple[str, ...], float]]
Family = tuple[str, str, str, tuple[str, ...], _Values]


def client() -> Any:
    """Prometheus' client library. Raises `UserError` when it is not installed."""
    try:
        return importlib.import_module("prometheus_client")
    except ImportError:
        raise UserError(
            "serve-metrics needs Prometheus' client: pip install 'accelprof[metrics]'"
        ) from None


class Runs:
    """A collector of the client library: reads every run that is alive at each scrape."""

    def __init__(
        self, folders: Callable[[], list[Path]] | None = None,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:  # fmt: skip
        self._folders = folders or (lambda: library.list_runs()[:NEWEST])
        self._now_ns = now_ns

    def collect(self) -> Iterator[Any]:
        """Metric families of the client library."""
        core = importlib.import_module("prometheus_client.core")
        kinds = {"counter": core.CounterMetricFamily, "gauge": core.GaugeMetricFamily}
        merged: dict[str, Any] = {}
        for families in self._read():
            for name, kind, about, labels, values in families:
                if name not in merged:
                    merged[name] = kinds[kind](
                        f"accelprof_{name}", about, labels=("run", "name", *labels)
                    )
                for label_values, value in values:
                    merged[name].add_metric(label_values, value)
        yield from merged.values()

    def _read(self) -> Iterator[list[Family]]:
        for folder in self._folders():
            if not (folder / "agent.sock").exists():
                continue
            try:
                with open_run(folder) as reader:
                    if reader.live:
                        yield families(reader, self._now_ns())
            except (BadRunFile, QueryError):
                continue  # it ended between the look and the question


def families(reader: RunReader, now_ns: int) -> list[Family]:
    """Everything that is served of one run."""
    rows = reader.rows("SELECT id, name, started_ns FROM run LIMIT 1")
    if not rows:
        return []
    run = (str(rows[0][0]), str(rows[0][1] or ""))
    started = rows[0][2] or now_ns
    return [
        ("run_seconds", "gauge", "Time since the run began", (), [(run, (now_ns - started) / 1e9)]),
        *_steps(reader, run, now_ns),
        *_newest(reader, run, "device_sample", DEVICE, now_ns, by_device=True),
        *_newest(reader, run, "host_sample", HOST, now_ns, by_device=False),
        *_job(reader, run, now_ns),
    ]


def _steps(reader: RunReader, run: tuple[str, str], now_ns: int) -> Iterator[Family]:
    sums = ", ".join(f"sum({phase}_ns) / 1e9" for phase in PHASES)
    row = reader.rows(
        f"SELECT count(*), sum(samples), sum(duration_ns) / 1e9, {sums} FROM step "
        "WHERE NOT coalesce(captured, false)"
    )[0]
    yield "steps", "counter", "Steps of all ranks", (), [(run, row[0])]
    if row[1] is not None:
        yield "samples", "counter", "Samples of all ranks", (), [(run, row[1])]
    yield "step_seconds", "counter", "Time within steps", (), [(run, row[2] or 0.0)]
    phases: _Values = [
        ((*run, phase), value)
        for phase, value in zip(PHASES, row[3:], strict=True)
        if value is not None
    ]
    yield "phase_seconds", "counter", "Time within a phase of steps", ("phase",), phases
    p50, p95 = reader.rows(
        "SELECT quantile_cont(duration_ns, 0.5) / 1e9, quantile_cont(duration_ns, 0.95) / 1e9 "
        "FROM step WHERE t_ns > ? AND NOT coalesce(captured, false)",
        (now_ns - MINUTE_NS,),
    )[0]
    quantiles: _Values = [((*run, q), v) for q, v in (("0.5", p50), ("0.95", p95)) if v is not None]
    yield "recent_step_seconds", "gauge", "Steps of the last minute", ("quantile",), quantiles


def _newest(
    reader: RunReader, run: tuple[str, str], table: str, columns: Sequence[tuple[str, str, str]],
    now_ns: int, *, by_device: bool,
) -> Iterator[Family]:  # fmt: skip
    owner = "device" if by_device else "0"
    values = ", ".join(f"arg_max({column}, t_ns)" for _, _, column in columns)
    rows = reader.rows(
        f"SELECT {owner} AS owner, {values} FROM {table} WHERE t_ns > ? GROUP BY owner ORDER BY 1",
        (now_ns - FRESH_NS,),
    )
    for at, (name, about, _) in enumerate(columns, 1):
        found: _Values = [
            ((*run, str(row[0])) if by_device else run, float(row[at]))
            for row in rows
            if row[at] is not None
        ]
        if found:
            labels: tuple[str, ...] = ("device",) if by_device else ()
            yield name, "gauge", about, labels, found


def _job(reader: RunReader, run: tuple[str, str], now_ns: int) -> Iterator[Family]:
    cores, held = reader.rows(
        "SELECT sum(cores), sum(held) FROM (SELECT arg_max(cpu_cores, t_ns) AS cores, "
        "arg_max(coalesce(pss_bytes, rss_bytes), t_ns) AS held FROM process_sample "
        "WHERE t_ns > ? GROUP BY pid)",
        (now_ns - FRESH_NS,),
    )[0]
    if cores is not None:
        yield "job_cpu_cores", "gauge", "CPUs that the job uses", (), [(run, float(cores))]
    if held is not None:
        yield "job_memory_bytes", "gauge", "Memory of the job", (), [(run, float(held))]
