"""Makes small recorded runs: real DuckDB files from storage/schema.sql, filled row by row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import duckdb

SCHEMA = Path(__file__).parents[2] / "storage" / "schema.sql"
T0 = 1_790_000_000_000_000_000
MS = 1_000_000
CALIBRATION = {
    "flops": {"fp32": 400e9, "bf16": 2800e9, "fp64": 200e9},
    "vector_flops": {
        "add": 23e9,
        "exp": 130e9,
        "log": 95e9,
        "tanh": 118e9,
        "erf": 85e9,
        "rand": 2e9,
    },
    "bytes_per_s": 30e9,
    "read_bytes_per_s": 32e9,
    "launch_s": 0.8e-6,
}
PHASES = (
    "data_wait",
    "iterator",
    "h2d",
    "forward",
    "backward",
    "optimizer",
    "checkpoint",
    "logging",
    "evaluation",
    "collective",
    "gc",
    "pre_forward",
    "gap",
    "data_wait_cpu",
)


class Run:
    """A run under construction; a reader too (`rows`), as storage's RunReader is."""

    def __init__(self, **run: Any) -> None:
        self.db = duckdb.connect()
        self.db.execute(SCHEMA.read_text())
        row = {
            "id": "20261201-000000-case-0000",
            "name": "case",
            "command": ["python", "train.py"],
            "cwd": "/job",
            "host": "box",
            "started_ns": T0,
            "ended_ns": T0 + 60_000 * MS,
            "exit_status": 0,
            "state": "finished",
            "environment": json.dumps({"cpus_usable": 2, "torch": "2.13.0"}),
            "quality": json.dumps({"profiler_cpu_s": 0.3}),
        } | run
        self.add("run", [row])
        self.t_ns = T0
        self.facts: list[dict[str, Any]] = []

    def add(self, table: str, rows: Iterable[dict[str, Any]]) -> Run:
        for names, group in groupby(rows, key=tuple):
            found = list(group)
            quoted = ", ".join(f'"{n}"' for n in names)
            marks = ", ".join(["(" + ", ".join("?" * len(names)) + ")"] * len(found))
            values = [value for row in found for value in row.values()]
            self.db.execute(f'INSERT INTO "{table}" ({quoted}) VALUES {marks}', values)
        return self

    def fact(self, kind: str, **fields: Any) -> Run:
        self.facts.append({"k": kind} | fields)
        return self

    def process(self, pid: int = 10, role: str = "main", **fields: Any) -> Run:
        row = {
            "process": f"{pid}-a",
            "pid": pid,
            "role": role,
            "rank": 0,
            "hooks": "loaded",
            "spans": 100,
            "spans_lost": 0,
            "facts": json.dumps(self.facts),
        } | fields
        return self.add("process", [row])

    def steps(self, count: int, total_ms: float, *, pid: int = 10, **phases_ms: Any) -> Run:
        """`count` steps; phases in ms, a number, or a function of the step's number."""
        rows = []
        for number in range(count):
            given = {k: v(number) if callable(v) else v for k, v in phases_ms.items()}
            extra = {k: given.pop(k) for k in list(given) if k not in PHASES}
            length = extra.pop("duration", None) or total_ms
            row: dict[str, Any] = {
                "pid": pid,
                "rank": 0,
                "step": number,
                "t_ns": self.t_ns,
                "duration_ns": int(length * MS),
                "kind": "train",
                "samples": 32,
                "micro_batches": 1,
                "first_of_epoch": number == 0,
                "captured": False,
            }
            row |= {f"{k}_ns": int(v * MS) for k, v in given.items() if v is not None}
            rows.append(row | extra)
            self.t_ns += int(length * MS)
        self._bulk("step", rows)
        return self

    def _bulk(self, table: str, rows: Sequence[dict[str, Any]]) -> None:
        if not rows:
            return
        names = list(rows[0])
        columns = [[r.get(n) for r in rows] for n in names]
        self.db.execute(
            f'INSERT INTO "{table}" ({", ".join(names)}) SELECT '
            + ", ".join("unnest(?)" for _ in names),
            columns,
        )

    def calibrated(self) -> Run:
        return self.add("meta", [{"key": "calibration", "value": json.dumps(CALIBRATION)}])

    def gpu(
        self,
        busy: float | None = 0.9,
        *,
        index: int = 0,
        name: str = "NVIDIA A100-SXM4-80GB",
        catalogue: str | None = "a100-sxm-80gb",
        details: dict[str, Any] | None = None,
        count: int = 40,
        **sample: Any,
    ) -> Run:
        """A device and `count` samples of it over the steps so far; none: it gave no reading."""
        about = {"driver": "550", "cuda_ordinal": index, "link_generation_max": 4,
                 "link_width_max": 16, "sm_clock_max_hz": 1.41e9} | (details or {})  # fmt: skip
        self.add("device", [{
            "device": index, "name": name, "kind": "gpu", "catalogue": catalogue,
            "memory_bytes": 80 << 30, "details": json.dumps(about),
        }])  # fmt: skip
        step = max(1, (self.t_ns - T0) // max(1, count))
        return self.add("device_sample", (
            {"t_ns": T0 + i * step, "device": index, "busy_share": busy,
             "memory_total_bytes": 80 << 30, "memory_used_bytes": 40 << 30} | sample
            for i in range(count)
        ))  # fmt: skip

    def event(self, kind: str, **data: Any) -> Run:
        row = {"t_ns": T0 + 500 * MS, "kind": kind, "data": json.dumps(data)}
        return self.add("event", [row])

    def host(self, cpu_share: float, count: int = 20, **fields: Any) -> Run:
        step = max(1, (self.t_ns - T0) // count)
        return self.add(
            "host_sample",
            (
                {"t_ns": T0 + i * step, "cpu_share": cpu_share, "cpu_core_share": [cpu_share] * 2}
                | fields
                for i in range(count)
            ),
        )

    def batches(
        self,
        count: int,
        fetch_ms: float,
        cpu_ms: float | None,
        collate_ms: float = 0.0,
        workers: int = 0,
    ) -> Run:
        step = max(1, (self.t_ns - T0) // count)
        return self.add(
            "worker_batch",
            (
                {
                    "t_ns": T0 + i * step,
                    "pid": 100 + i % workers if workers else 10,
                    "worker": i % workers if workers else -1,
                    "fetch_ns": int(fetch_ms * MS),
                    "collate_ns": int(collate_ms * MS),
                    "cpu_ns": int(cpu_ms * MS) if cpu_ms is not None else None,
                }
                for i in range(count)
            ),
        )

    def stacks(self, frames: dict[str, int], pid: int = 10) -> Run:
        middle = (T0 + self.t_ns) // 2
        return self.add(
            "stack",
            (
                {"t_ns": middle, "pid": pid, "thread": "MainThread", "frames": f, "samples": n}
                for f, n in frames.items()
            ),
        )

    def ops(
        self,
        rows: Sequence[dict[str, Any]],
        *,
        gap_ms: float = 0.0,
        window_ms: float = 0.0,
        pid: int = 10,
    ) -> Run:
        common = {
            "capture": 0,
            "pid": pid,
            "t_ns": T0,
            "steps": 1,
            "window_ns": int(window_ms * MS),
        }
        gap = op("(no operator)", gap_ms, phase="gap", flops=0.0, bytes=0.0)
        return self.add("op", (common | row for row in [*rows, gap]))

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.db.execute(sql, list(params)).fetchall()


def op(
    name: str,
    ms: float,
    *,
    flops: float | None = None,
    bytes: float | None = None,
    calls: int = 1,
    phase: str = "forward",
    shapes: str = "[[64,64],[64,64]]",
    dtype: str = "fp32",
) -> dict[str, Any]:
    return {
        "name": name,
        "phase": phase,
        "shapes": shapes,
        "dtype": dtype,
        "calls": calls,
        "flops": flops,
        "bytes": bytes,
        "time_ns": int(ms * MS),
        "host_ns": int(ms * MS),
    }
