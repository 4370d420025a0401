"""Pairs of recorded runs that differ in what a test is about."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from accelprof.hooks import wire
from accelprof.storage.writer import RunWriter

MS = 1_000_000
START_NS = 1_768_213_000_000_000_000


def record(
    home: Path, name: str, *, wait_ms: float = 60.0, steps: int = 400, workers: int = 2,
    samples: int | None = 32, seed: int = 1, device: str | None = None, started_s: int = 0,
    state: str = "finished", **run: Any,
) -> Path:  # fmt: skip
    """A training run whose steps take `wait_ms` and 40 ms of work, each within 10 %."""
    run_id = f"20260112-1016{40 + started_s:02}-{name}-ab12"
    folder = home / "runs" / run_id
    folder.mkdir(parents=True)
    writer = RunWriter(folder / "run.duckdb")
    chance = random.Random(seed)
    at = start = START_NS + started_s * 1_000 * MS
    rows = []
    for number in range(steps):
        wait = int(wait_ms * MS * chance.uniform(0.9, 1.1))
        rows.append({
            "pid": 10, "rank": 0, "step": number, "t_ns": at, "duration_ns": wait + 40 * MS,
            "kind": "train", "data_wait_ns": wait, "iterator_ns": 0, "forward_ns": 15 * MS,
            "backward_ns": 20 * MS, "optimizer_ns": 5 * MS, "pre_forward_ns": 0, "gap_ns": 0,
            "samples": samples, "micro_batches": 1, "first_of_epoch": number == 0,
            "captured": False,
        })  # fmt: skip
        at += wait + 40 * MS
    loader = {"k": wire.FACT_LOADER, "id": 1, "num_workers": workers, "batch_size": 32,
              "prefetch": 2, "persistent": False, "length": 100,
              "where": "train.py:31"}  # fmt: skip
    writer.append("step", rows)
    writer.append("process", [{
        "process": "10-1", "pid": 10, "role": "main", "rank": 0, "hooks": "loaded", "spans": 1,
        "spans_lost": 0, "facts": json.dumps([loader]),
    }])  # fmt: skip
    if device:
        writer.append("device", [{"device": 0, "name": device, "kind": "gpu",
                                  "memory_bytes": 80 << 30, "details": "{}"}])  # fmt: skip
        writer.append("device_sample", [
            {"t_ns": t, "device": 0, "busy_share": 0.4, "memory_used_bytes": 30 << 30,
             "memory_total_bytes": 80 << 30, "power_w": 300.0}
            for t in range(start, at, 500 * MS)
        ])  # fmt: skip
    fields: dict[str, Any] = {
        "id": run_id, "name": name, "command": ["python", "train.py", "--workers", str(workers)],
        "cwd": "/jobs", "host": "box", "started_ns": start, "ended_ns": at, "exit_status": 0,
        "state": state, "environment": {"python": "3.11.7", "torch": "2.13.0", "cpus_usable": 8},
        "settings": {}, "quality": {},
    }  # fmt: skip
    writer.update_run(**(fields | run))
    writer.close()
    return folder
