"""Recorded runs for the advisor: real DuckDB files with operators captured on a known card."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

SCHEMA = Path(__file__).parents[2] / "storage" / "schema.sql"
T0 = 1_790_000_000_000_000_000
MS = 1_000_000
STEPS = 200


def operator(
    name: str,
    dims: Sequence[Sequence[int]],
    ms: float,
    *,
    flops: float | None,
    moved: float | None,
    calls: int = 1,
    dtype: str = "bf16",
    phase: str = "forward",
) -> dict[str, Any]:
    """A row of table op; figures are sums over the calls."""
    return {
        "name": name, "phase": phase, "shapes": json.dumps(dims), "dtype": dtype, "calls": calls,
        "flops": flops, "bytes": moved, "time_ns": int(ms * MS), "host_ns": int(ms * MS),
    }  # fmt: skip


def product(rows: int, inner: int, out: int, ms: float, *, calls: int = 1, **more: Any) -> Any:
    """A matrix product [rows, inner] x [inner, out] in bf16 unless told otherwise."""
    size = 4 if more.get("dtype") == "fp32" else 2
    return operator(
        "aten::mm", [[rows, inner], [inner, out]], ms, calls=calls,
        flops=2.0 * rows * inner * out * calls,
        moved=float(size * (rows * inner + inner * out + rows * out) * calls), **more,
    )  # fmt: skip


def stream(elements: int, ms: float, *, calls: int = 1, **more: Any) -> Any:
    """An element-wise operator: reads and writes every element once."""
    return operator(
        "aten::gelu", [[elements]], ms, calls=calls, flops=8.0 * elements * calls,
        moved=4.0 * elements * calls, **more,
    )  # fmt: skip


class Recorded:
    """A run with steps, operators and facts; a reader as storage's RunReader is."""

    def __init__(self, path: Path) -> None:
        self.db = duckdb.connect(str(path))
        self.db.execute(SCHEMA.read_text())
        self.add("run", [{
            "id": "20261201-000000-case-0000", "name": "case", "command": ["python", "train.py"],
            "started_ns": T0, "ended_ns": T0 + 60_000 * MS, "exit_status": 0, "state": "finished",
            "environment": json.dumps({"cpus_usable": 8}),
        }])  # fmt: skip
        self.add("meta", [{"key": "schema_version", "value": "1"}])

    def add(self, table: str, rows: Sequence[dict[str, Any]]) -> None:
        self.db.execute("BEGIN")
        for row in rows:
            names = ", ".join(f'"{n}"' for n in row)
            marks = ", ".join("?" for _ in row)
            self.db.execute(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', list(row.values()))
        self.db.execute("COMMIT")

    def rows(self, sql: str, params: Sequence[Any] = (), /) -> list[tuple[Any, ...]]:
        return self.db.execute(sql, list(params)).fetchall()


def record(
    path: Path,
    ops: Sequence[dict[str, Any]],
    *,
    work_ms: float,
    wait_ms: float = 0.0,
    card: str | None = "a100-sxm-80gb",
    workers: int = 0,
    parameters: int = 100_000_000,
    peak_bytes: int | None = 20 << 30,
    samples: int | None = 32,
    trains: bool = True,
    host_ms: float = 0.0,
) -> Recorded:
    """STEPS steady steps of wait and work; `card` None: a CPU that did the work itself."""
    run = Recorded(path)
    step_ms = work_ms + wait_ms
    kind = "train" if trains else "inference"
    run.add("process", [{
        "process": "10-a", "pid": 10, "role": "main", "rank": 0, "hooks": "loaded", "spans": 100,
        "spans_lost": 0, "facts": json.dumps(_facts(workers, parameters, trains)),
    }])  # fmt: skip
    run.add("step", [
        {
            "pid": 10, "rank": 0, "step": n, "t_ns": T0 + int(n * step_ms * MS),
            "duration_ns": int(step_ms * MS), "kind": kind, "data_wait_ns": int(wait_ms * MS),
            "iterator_ns": 0, "h2d_ns": 0, "forward_ns": int(0.3 * work_ms * MS),
            "backward_ns": int(0.6 * work_ms * MS), "optimizer_ns": int(0.1 * work_ms * MS),
            "samples": samples, "micro_batches": 1, "first_of_epoch": n == 0, "captured": False,
        }
        for n in range(STEPS)
    ])  # fmt: skip
    _machine(run, card, step_ms, (work_ms - host_ms) / step_ms, peak_bytes)
    run.add("op", [_captured(row, work_ms) for row in ops])
    if workers:
        run.add("worker_batch", [
            {"t_ns": T0 + int(n * step_ms * MS), "pid": 100 + n % workers, "worker": n % workers,
             "fetch_ns": int(step_ms * workers * MS), "collate_ns": 0,
             "cpu_ns": int(step_ms * workers * MS)}
            for n in range(STEPS)
        ])  # fmt: skip
    return run


def _captured(row: dict[str, Any], work_ms: float) -> dict[str, Any]:
    common = {"capture": 0, "pid": 10, "t_ns": T0, "steps": 1, "window_ns": int(work_ms * MS)}
    return common | row


def _facts(workers: int, parameters: int, trains: bool) -> list[dict[str, Any]]:
    optimizer = {"k": "optimizer", "id": 1, "name": "AdamW", "parameters": parameters}
    return [
        {"k": "loader", "id": 1, "num_workers": workers, "batch_size": 32, "length": STEPS},
        *([optimizer] if trains else []),
        {"k": "root", "id": 1, "name": "Net", "parameters": parameters, "bytes": 4 * parameters},
    ]


def _machine(
    run: Recorded, card: str | None, step_ms: float, busy: float, peak_bytes: int | None
) -> None:
    calibration = {"flops": {"fp32": 400e9, "bf16": 800e9}, "bytes_per_s": 30e9, "launch_s": 1e-6}
    if card is None:
        run.add("meta", [{"key": "calibration", "value": json.dumps(calibration)}])
        return
    run.add("device", [{
        "device": 0, "name": card, "kind": "gpu", "catalogue": card, "memory_bytes": 80 << 30,
        "details": json.dumps({"ceilings": {
            "flops": {"fp32": 19.5e12, "bf16": 312e12}, "bytes_per_s": 2e12, "source": "datasheet",
        }}),
    }])  # fmt: skip
    run.add("device_sample", [
        {"t_ns": T0 + int(n * step_ms * MS), "device": 0, "busy_share": busy,
         "memory_used_bytes": peak_bytes, "memory_total_bytes": 80 << 30, "power_w": 300.0}
        for n in range(STEPS)
    ])  # fmt: skip
