"""Writes run files as the agent leaves them, with the same numbers each time."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

from accelprof.hooks import wire
from accelprof.storage.writer import RunWriter

START_NS = 1_768_213_000_000_000_000  # 2026-01-12 10:16:40 UTC
MS = 1_000_000
CORES = 8
MAIN, WORKERS = 4100, (4110, 4111)
RUN_ID = "20260112-101640-resnet-ab12"


def record(
    folder: Path, *, steps: int = 600, state: str = "finished", gpu: bool = False,
    run_id: str = RUN_ID, name: str = "resnet", full: bool = False,
) -> int:  # fmt: skip
    """A training run, input-bound but for a stretch in its middle. Returns its length in ns.

    `full`: with two ranks, four accelerators, captured operators, stacks and events.
    """
    folder.mkdir(parents=True, exist_ok=True)
    writer = RunWriter(folder / "run.duckdb")
    chance = random.Random(7)
    rows, length = _steps(steps, chance)
    writer.append("step", rows)
    writer.append("worker_batch", [row for step in rows for row in _batches(step)])
    writer.append("process", _processes(name))
    writer.append("process_sample", _process_samples(length, chance))
    writer.append("host_sample", _host_samples(length, chance))
    if not full:
        writer.append("device", [_device(gpu)])
    if gpu and not full:
        writer.append("device_sample", _device_samples(length, chance))
    if full:
        import everything

        everything.add(writer, rows, length)
    writer.append("gap", [{"t_ns": START_NS, "source": "nvml", "metric": "library",
                           "reason": "libnvidia-ml.so.1 is not on this machine"}])  # fmt: skip
    writer.update_run(
        id=run_id, name=name, command=["python", f"{name}.py", "--epochs", "3"],
        cwd="/home/ada/jobs", host="node-17", user="ada", started_ns=START_NS,
        ended_ns=None if state == "running" else START_NS + length,
        exit_status=None if state == "running" else 0, state=state, tags={"team": "vision"},
        environment={"python": "3.11.7", "torch": "2.13.0+cpu", "cpus_usable": CORES},
        settings={}, quality={"profiler_cpu_s": 0.4},
    )  # fmt: skip
    writer.close()
    return length


def _steps(count: int, chance: random.Random) -> tuple[list[dict[str, Any]], int]:
    rows = []
    at = START_NS + 2_000 * MS
    for number in range(count):
        fast = count * 5 // 12 < number < count * 7 // 12  # the page cache is warm for a while
        wait = int((8 if fast else 118) * MS * chance.uniform(0.8, 1.25))
        forward, backward = (int(ms * MS * chance.uniform(0.95, 1.1)) for ms in (14, 27))
        optimizer, loose = 5 * MS, 2 * MS
        checkpoint = 900 * MS if number % 250 == 249 else 0
        duration = wait + forward + backward + optimizer + loose + checkpoint
        rows.append({
            "pid": MAIN, "rank": 0, "step": number, "t_ns": at, "duration_ns": duration,
            "kind": "train", "data_wait_ns": wait, "iterator_ns": 0, "forward_ns": forward,
            "backward_ns": backward, "optimizer_ns": optimizer, "checkpoint_ns": checkpoint,
            "pre_forward_ns": MS, "gap_ns": MS, "data_wait_cpu_ns": wait // 50, "samples": 32,
            "micro_batches": 1, "first_of_epoch": number % 250 == 0, "captured": False,
        })  # fmt: skip
        at += duration
    return rows, at - START_NS + 500 * MS


def _batches(step: dict[str, Any]) -> list[dict[str, Any]]:
    worker = step["step"] % len(WORKERS)
    return [{"t_ns": step["t_ns"], "pid": WORKERS[worker], "worker": worker,
             "fetch_ns": 330 * MS, "collate_ns": 6 * MS, "cpu_ns": 322 * MS}]  # fmt: skip


def _processes(name: str) -> list[dict[str, Any]]:
    facts = [
        {"k": wire.FACT_PROCESS, "pid": MAIN, "ppid": 4000, "python": "3.11.7"},
        {"k": wire.FACT_LOADER, "id": 1, "num_workers": 2, "batch_size": 32, "prefetch": 2,
         "pin_memory": False, "persistent": False, "length": 250, "where": "train.py:31"},
        {"k": wire.FACT_OPTIMIZER, "id": 1, "name": "AdamW", "parameters": 11_689_512},
        {"k": wire.FACT_ROOT, "id": 1, "name": "ResNet", "parameters": 11_689_512},
    ]  # fmt: skip
    common = {"started_ns": START_NS, "hooks": "loaded", "spans_lost": 0}
    main = {"process": f"{MAIN}-1", "pid": MAIN, "ppid": 4000, "role": "main", "rank": 0,
            "command": f"python {name}.py --epochs 3", "spans": 4800,
            "facts": json.dumps(facts)}  # fmt: skip
    workers = [
        {"process": f"{pid}-2", "pid": pid, "ppid": MAIN, "role": "worker", "worker": at,
         "command": f"python {name}.py --epochs 3", "spans": 600, "facts": "[]"}
        for at, pid in enumerate(WORKERS)
    ]  # fmt: skip
    return [common | row for row in (main, *workers)]


def _process_samples(length: int, chance: random.Random) -> list[dict[str, Any]]:
    rows = []
    for at in range(0, length, 500 * MS):
        for pid in (MAIN, *WORKERS):
            main = pid == MAIN
            rows.append({
                "t_ns": START_NS + at, "pid": pid,
                "cpu_cores": round(chance.uniform(0.5, 0.9) if main else 0.98, 2),
                "rss_bytes": (900 if main else 400) << 20, "threads": 9 if main else 1,
                "read_bytes_per_s": 0.0 if main else 21e6, "write_bytes_per_s": 0.0,
                "state": "S" if main else "R",
            })  # fmt: skip
    return rows


def _host_samples(length: int, chance: random.Random) -> list[dict[str, Any]]:
    rows = []
    for at in range(0, length, 500 * MS):
        cores = [0.97, 0.95, 0.7] + [chance.uniform(0.01, 0.12) for _ in range(CORES - 3)]
        rows.append({
            "t_ns": START_NS + at, "cpu_share": sum(cores) / CORES, "cpu_core_share": cores,
            "iowait_share": 0.01, "memory_used_bytes": 5 << 30, "memory_total_bytes": 32 << 30,
            "disk_read_bytes_per_s": 42e6, "disk_write_bytes_per_s": 1e6,
        })  # fmt: skip
    return rows


def _device(gpu: bool) -> dict[str, Any]:
    if gpu:
        return {"device": 0, "name": "NVIDIA H100 80GB HBM3", "kind": "gpu",
                "catalogue": "h100-sxm-80gb", "memory_bytes": 80 << 30,
                "details": "{}"}  # fmt: skip
    ceilings = {"flops": {"fp32": 4.1e11}, "bytes_per_s": 4.1e10, "source": "calibrated"}
    return {"device": 0, "name": "AMD EPYC 7B13", "kind": "cpu", "memory_bytes": 32 << 30,
            "details": json.dumps({"ceilings": ceilings})}  # fmt: skip


def _device_samples(length: int, chance: random.Random) -> list[dict[str, Any]]:
    return [
        {"t_ns": START_NS + at, "device": 0,
         "busy_share": 0.3 + 0.1 * math.sin(at / 5e9) + chance.uniform(0, 0.05),
         "memory_busy_share": 0.11, "memory_used_bytes": 31 << 30,
         "memory_total_bytes": 80 << 30, "power_w": 231.0, "power_limit_w": 700.0,
         "temperature_c": 51.0}
        for at in range(0, length, 500 * MS)
    ]  # fmt: skip


def live(folder: Path) -> None:
    """A run that is written while it is read: a step with each line of stdin, until `end`."""
    import sys
    import time

    from accelprof.storage.live import LiveServer

    folder.mkdir(parents=True, exist_ok=True)
    writer = RunWriter(folder / "run.duckdb")
    rows, length = _steps(60, random.Random(7))
    moved = time.time_ns() - START_NS - length
    writer.append("process", _processes("resnet"))
    writer.append("step", [row | {"t_ns": row["t_ns"] + moved} for row in rows])
    writer.update_run(id=RUN_ID, name="resnet", command=["python", "resnet.py"], host="node-17",
                      started_ns=START_NS + moved, state="running", environment={})  # fmt: skip
    writer.flush()
    server = LiveServer(folder, writer.cursor)
    print("ready", flush=True)
    for number, line in enumerate(sys.stdin, len(rows)):
        if line.strip() == "end":
            break
        last = rows[-1] | {"step": number, "t_ns": time.time_ns() - 200 * MS}
        writer.append("step", [last])
        writer.flush()
        print("written", flush=True)
    server.close()
    writer.update_run(state="finished", ended_ns=time.time_ns(), exit_status=0)
    writer.close()
