"""Long runs: how large their files get, and how long their report and their screen take to open.

    python benchmarks/long_runs.py day      # 24 h, 8 devices, 8 ranks, 64 loader workers
    python benchmarks/long_runs.py steps    # 1,000,000 steps of 1 ms, from spans to the verdict
    python benchmarks/long_runs.py host     # 24 h of the host's recorder with 8 devices

Times are of CPU (a machine that others use, too, says little by the wall clock) and of the wall.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb

from accelprof.hooks import wire
from accelprof.profiler import diagnosis
from accelprof.profiler.steps import StepBuilder
from accelprof.storage import rollup
from accelprof.storage.reader import open_run
from accelprof.storage.writer import RunWriter

S = 1_000_000_000
T0 = 1_790_000_000 * S
HOUR = 3600
DEVICES, WORKERS, STEP_MS = 8, 64, 200
# What the roll-up leaves of a day: hours, Hz of devices, Hz of processes
RESOLUTIONS = ((18, 0.1, 0.1), (5, 1.0, 1.0), (1, 10.0, 2.0))
SPANS_A_POLL = 60_000


def day(folder: Path) -> Path:
    """A day of a job of 8 ranks with 8 workers each, as its recorder would have left it."""
    path = folder / "run.duckdb"
    writer = RunWriter(path)
    writer.update_run(
        id="day", name="day", command=["torchrun", "train.py"], started_ns=T0,
        ended_ns=T0 + 24 * HOUR * S, state="finished", exit_status=0, host="box",
    )  # fmt: skip
    for number in range(DEVICES):
        row = {"device": number, "name": "NVIDIA H100 80GB HBM3", "kind": "gpu"}
        writer.append("device", [row | {"catalogue": "h100-sxm-80gb", "memory_bytes": 80 << 30}])
    for pid in range(1, DEVICES + WORKERS + 1):
        rank = pid - 1 if pid <= DEVICES else None
        writer.append("process", [{
            "process": f"{pid}-a", "pid": pid, "role": "worker" if rank is None else "rank",
            "rank": rank, "hooks": "loaded", "spans": 1, "spans_lost": 0, "facts": [],
        }])  # fmt: skip
    writer.close()
    with duckdb.connect(str(path)) as base:
        base.execute("SELECT setseed(0.5)")
        _samples(base)
        _steps(base)
        base.execute("CHECKPOINT")
    return path


def _samples(base: duckdb.DuckDBPyConnection) -> None:
    begun_s = 0
    for hours, device_hz, process_hz in RESOLUTIONS:
        start, seconds = T0 + begun_s * S, hours * HOUR
        base.execute(
            "INSERT INTO device_sample (t_ns, device, busy_share, sm_share, dram_share, "
            "memory_used_bytes, memory_total_bytes, power_w, energy_j, temperature_c) "
            "SELECT ? + (i * ?)::BIGINT, d, 0.7 + random() / 10, 0.5 + random() / 10, "
            "random() / 3, 6e10, 8e10, 500 + random() * 100, i * ?, 60 "
            "FROM range(?) t(i), range(?) u(d)",
            [start, S / device_hz, 550 / device_hz, round(seconds * device_hz), DEVICES],
        )
        base.execute(
            "INSERT INTO process_sample (t_ns, pid, cpu_cores, rss_bytes, threads, state) "
            "SELECT ? + (i * ?)::BIGINT, p + 1, random(), 2e9 + random() * 1e8, 8, 'running' "
            "FROM range(?) t(i), range(?) u(p)",
            [start, S / process_hz, round(seconds * process_hz), DEVICES + WORKERS],
        )
        base.execute(
            "INSERT INTO host_sample (t_ns, cpu_share, memory_used_bytes, memory_total_bytes) "
            "SELECT ? + (i * ?)::BIGINT, random(), 1e11, 2e11 FROM range(?) t(i)",
            [start, S / process_hz, round(seconds * process_hz)],
        )
        begun_s += seconds


def host(folder: Path) -> Path:
    """A day of the host's recorder, 10 Hz and a job of 20 processes: the roll-up as it goes."""
    path, largest = folder / "run.duckdb", 0
    writer = RunWriter(path)
    writer.update_run(id="daemon", name="daemon", started_ns=T0, settings={"daemon": True})
    writer.close()
    every_s = int(rollup.EVERY_S)
    with duckdb.connect(str(path), config={"threads": 1, "memory_limit": "40MB"}) as base:
        for begun_s in range(0, 24 * HOUR, every_s):
            start = T0 + begun_s * S
            base.execute("BEGIN TRANSACTION")
            base.execute(
                "INSERT INTO device_sample SELECT ? + (i * 1e8)::BIGINT, d, 0.7 + random() / 10, "
                "random() / 3, 0.5 + random() / 10, random() / 2, random() / 3, random() / 2, "
                "6e10 + (random() * 1e4)::BIGINT * 1048576, 8e10, 1.9e9 - (random() * 9)::BIGINT "
                "* 15e6, 2.6e9, 500 + round(random() * 1e5) / 1e3, 700, i * 55 + random(), 60 + "
                "round(random() * 3), CASE WHEN random() < 0.1 THEN 4 ELSE 0 END, random() * 1e9, "
                "random() * 1e9, 5, 16 FROM range(?) t(i), range(?) u(d)",
                [start, every_s * 10, DEVICES],
            )
            base.execute(
                "INSERT INTO process_sample SELECT ? + (i * 2e9)::BIGINT, p, random(), 2e9 + "
                "(random() * 1e5)::BIGINT * 4096, NULL, 8, random() * 1e6, random() * 1e8, "
                "random() * 1e5, 'running' FROM range(?) t(i), range(20) u(p)",
                [start, every_s // 2],
            )
            base.execute(
                "INSERT INTO host_sample (t_ns, cpu_share, memory_used_bytes, memory_total_bytes) "
                "SELECT ? + (i * 1e9)::BIGINT, random(), 1e11 + random() * 1e9, 2e11 "
                "FROM range(?) t(i)",
                [start, every_s],
            )
            rollup.roll_up(base, start + every_s * S)
            base.execute("COMMIT")
            rollup.give_back(base)
            largest = max(largest, path.stat().st_size)
    size = path.stat().st_size
    print(f"host: {size / 1e6:.0f} MB after a day, {largest / 1e6:.0f} MB at the most: "
          f"{largest / DEVICES / 1e6:.1f} MB a device")  # fmt: skip
    return path


def _steps(base: duckdb.DuckDBPyConnection) -> None:
    ns, count = STEP_MS * 1_000_000, 24 * HOUR * 1000 // STEP_MS
    base.execute(
        "INSERT INTO step (pid, rank, step, t_ns, duration_ns, kind, data_wait_ns, forward_ns, "
        "backward_ns, optimizer_ns, collective_ns, checkpoint_ns, samples, micro_batches, "
        "first_of_epoch, captured) SELECT r + 1, r, i, ? + i * ?, ? - (random() * 1e6)::BIGINT, "
        "'train', (random() * 2e7)::BIGINT, 50000000 + (random() * 1e6)::BIGINT, "
        "70000000 + (random() * 1e6)::BIGINT, 9000000, 2000000 + (random() * 1e6)::BIGINT, "
        "CASE WHEN i % 5000 = 4999 THEN 90000000 ELSE 0 END, 256, 1, i % 20000 = 0, false "
        "FROM range(?) u(r), range(?) t(i)",
        [T0, ns, ns, DEVICES, count],
    )
    base.execute(
        "INSERT INTO worker_batch (t_ns, pid, worker, fetch_ns, cpu_ns) "
        "SELECT ? + i * ?, ? + w + 1, w, 900000000 + (random() * 1e8)::BIGINT, 800000000 "
        "FROM range(?) u(w), range(?) t(i)",
        [T0, ns * WORKERS // DEVICES, DEVICES, WORKERS, count * DEVICES // WORKERS],
    )


def steps(folder: Path, count: int) -> Path:
    """Steps of 1 ms with four spans each, through the step builder and the writer."""
    path = folder / "run.duckdb"
    writer = RunWriter(path)
    writer.update_run(id="steps", name="steps", command=["python", "x.py"], started_ns=T0)
    writer.append("process", [{"process": "7-a", "pid": 7, "role": "main", "hooks": "loaded"}])
    builder = StepBuilder(7)
    builder.optimizer_known = True
    began, spans = time.process_time(), []
    for number in range(count):
        t = T0 + number * 1_000_000 + number * 7919 % 1000
        training = wire.F_GRAD | wire.F_TRAINING
        spans += [
            (t, t + 200_000 + number * 31 % 999, wire.DATA_WAIT, 0, 1, 150),
            (t + 210_000, t + 500_000, wire.FORWARD, training, 2, 32),
            (t + 500_000, t + 800_000, wire.BACKWARD, 0, 0, 0),
            (t + 810_000, t + 900_000, wire.OPTIMIZER, 0, 3, 0),
        ]
        if len(spans) >= SPANS_A_POLL:
            writer.append("step", builder.feed(spans).steps)
            writer.flush()
            writer.roll_up(t)
            spans = []
    writer.append("step", builder.feed(spans).steps)
    writer.append("step", builder.finish().steps)
    writer.update_run(ended_ns=T0 + count * 1_000_000, state="finished", exit_status=0)
    writer.flush()
    fed = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"spans to rows: {fed / count * 1e6:.0f} us of CPU a step; peak {peak:.0f} MB so far")
    timed("the end (diagnosis)", lambda: _judge(writer))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak with the diagnosis: {peak:.0f} MB")
    writer.close()
    return path


def _judge(writer: RunWriter) -> None:
    with writer.reader() as reader:
        print(" ", diagnosis.diagnose(reader).verdict.headline)


def timed(what: str, call: Callable[[], object]) -> None:
    """Prints the CPU (with children) and wall seconds of a call."""
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    wall = time.perf_counter()
    call()
    wall = time.perf_counter() - wall
    now = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(
        n.ru_utime + n.ru_stime - u.ru_utime - u.ru_stime for n, u in zip(now, used, strict=True)
    )
    print(f"{what:<24} {cpu:6.2f} s CPU  {wall:6.2f} s wall")


def measure(path: Path) -> None:
    """What a user waits for."""
    print(f"file {path.stat().st_size / 1e6:.0f} MB")
    for form in ("txt", "json", "html"):
        timed(f"report, {form}", partial(_report, path, form))
    timed("the screen's first look", lambda: _first_look(path))


def _report(path: Path, form: str) -> None:
    words = [sys.executable, "-m", "accelprof", "report", str(path), "--format", form]
    subprocess.run(words, check=True, capture_output=True)


def _first_look(path: Path) -> None:
    from accelprof.tui.feed import RunFeed
    from accelprof.tui.model import Request

    with open_run(path) as reader:
        RunFeed(reader).snapshot(Request(columns=200))


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("what", choices=("day", "steps", "host"))
    asked.add_argument("--steps", type=int, default=1_000_000)
    asked.add_argument("--keep", type=Path, help="folder to leave the run in")
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "run.duckdb"
        if not path.exists():
            by_steps = partial(steps, count=given.steps)
            make: dict[str, Callable[[Path], Path]] = {"day": day, "steps": by_steps, "host": host}
            path = make[given.what](folder)
        measure(path)
    print(json.dumps({"python": sys.version.split()[0], "duckdb": duckdb.__version__}))


if __name__ == "__main__":
    main()
