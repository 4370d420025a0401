"""Cost of `accelprof top` on a live run: 8 devices at 10 Hz, 64 loader workers.

    python benchmarks/top.py [--seconds 30] [--keys 20] [--columns 120] [--rows 40]

A process writes such a run as the agent does; `top` watches it in a terminal. Shown: CPU of top in
per cent of a core on each view (reading the run, judging it again and drawing), and the time from a
key to the first output that shows the new view.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pexpect

ROOT = Path(__file__).parents[1]
DEVICES, WORKERS, DEVICE_HZ, PROCESS_HZ, STEPS_A_S = 8, 64, 10, 2, 5
RUN = "20260112-101640-bench-ab12"
WRITER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from top import write
write(Path(sys.argv[2]))
"""
# A view by its key, and what appears on the screen only with it
VIEWS = {"1": "verdict", "2": "over time", "3": "outliers", "4": "loader and queue",
         "7": "processes (65)", "8": "why"}  # fmt: skip


def write(folder: Path) -> None:
    """Writes a run for ever, a second at a time."""
    from accelprof.storage.live import LiveServer
    from accelprof.storage.writer import RunWriter

    folder.mkdir(parents=True)
    writer = RunWriter(folder / "run.duckdb")
    now = time.time_ns()
    writer.update_run(id=RUN, name="bench", command=["python", "train.py"], started_ns=now,
                      state="running", environment={"cpus_usable": 96})  # fmt: skip
    writer.append("device", [
        {"device": at, "name": "NVIDIA H100 80GB HBM3", "kind": "gpu",
         "catalogue": "h100-sxm-80gb", "memory_bytes": 80 << 30, "details": "{}"}
        for at in range(DEVICES)
    ])  # fmt: skip
    writer.append("process", [
        {"process": f"{pid}-1", "pid": pid, "role": "worker" if pid > 1 else "main",
         "worker": pid - 2 if pid > 1 else None, "rank": None if pid > 1 else 0,
         "hooks": "loaded", "spans": 1, "spans_lost": 0, "facts": "[]",
         "command": "python train.py"}
        for pid in range(1, WORKERS + 2)
    ])  # fmt: skip
    for second in range(120, 0, -1):
        _second(writer, now - second * 10**9)
    writer.flush()
    server = LiveServer(folder, writer.cursor)
    print("ready", flush=True)
    while True:
        time.sleep(1.0)
        _second(writer, time.time_ns() - 10**9)
        writer.flush()
        assert server


def _second(writer: object, t_ns: int) -> None:
    put = writer.append  # type: ignore[attr-defined]
    put("device_sample", [
        {"t_ns": t_ns + at * 10**9 // DEVICE_HZ, "device": device, "busy_share": 0.4,
         "memory_used_bytes": 40 << 30, "memory_total_bytes": 80 << 30, "power_w": 400.0,
         "power_limit_w": 700.0, "temperature_c": 60.0, "sm_share": 0.3, "tensor_share": 0.1,
         "dram_share": 0.2, "throttle_bits": 0}
        for at in range(DEVICE_HZ) for device in range(DEVICES)
    ])  # fmt: skip
    put("process_sample", [
        {"t_ns": t_ns + at * 10**9 // PROCESS_HZ, "pid": pid, "cpu_cores": 0.9,
         "rss_bytes": 400 << 20, "threads": 3, "read_bytes_per_s": 1e6, "state": "R"}
        for at in range(PROCESS_HZ) for pid in range(1, WORKERS + 2)
    ])  # fmt: skip
    put("host_sample", [
        {"t_ns": t_ns + at * 10**9 // PROCESS_HZ, "cpu_share": 0.6, "cpu_core_share": [0.6] * 96,
         "memory_used_bytes": 200 << 30, "memory_total_bytes": 1000 << 30}
        for at in range(PROCESS_HZ)
    ])  # fmt: skip
    length = 10**9 // STEPS_A_S
    put("step", [
        {"pid": 1, "rank": 0, "step": t_ns // length + at, "t_ns": t_ns + at * length,
         "duration_ns": length, "kind": "train", "data_wait_ns": length // 2,
         "forward_ns": length // 8, "backward_ns": length // 4, "optimizer_ns": length // 8,
         "samples": 64, "micro_batches": 1, "captured": False}
        for at in range(STEPS_A_S)
    ])  # fmt: skip
    put("worker_batch", [
        {"t_ns": t_ns + at * length, "pid": 2 + (t_ns // length + at) % WORKERS,
         "worker": (t_ns // length + at) % WORKERS, "fetch_ns": 10**10, "cpu_ns": 9 * 10**9}
        for at in range(STEPS_A_S)
    ])  # fmt: skip


def main() -> None:
    """Prints a line a view, then the times of keys."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--seconds", type=float, default=30.0)
    words.add_argument("--keys", type=int, default=20)
    words.add_argument("--columns", type=int, default=120)
    words.add_argument("--rows", type=int, default=40)
    given = words.parse_args()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "runs" / RUN
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(ROOT / "benchmarks"), str(folder)],
            stdout=subprocess.PIPE,
        ) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            try:
                _measure(given, home)
            finally:
                writer.kill()


def _measure(given: argparse.Namespace, home: str) -> None:
    environment = {**os.environ, "ACCELPROF_HOME": home, "TERM": "xterm-256color"}
    environment.pop("COLORTERM", None)
    top = pexpect.spawn(
        sys.executable, ["-m", "accelprof", "top", RUN], env=environment, timeout=60,
        dimensions=(given.rows, given.columns),
    )  # fmt: skip
    top.delaybeforesend = None
    top.expect("INPUT")
    for key, shown in VIEWS.items():
        _drain(top, 1.0)
        top.send(key)
        before, begun = _cpu_s(top.pid), time.monotonic()
        _drain(top, given.seconds)
        share = (_cpu_s(top.pid) - before) / (time.monotonic() - begun)
        print(f"view {key} ({shown}): {share:.1%} of a core", flush=True)
    walls, cpus = [], []
    for at in range(given.keys):
        key = list(VIEWS)[at % len(VIEWS)]
        _drain(top, 0.7)
        begun, before = time.perf_counter(), _cpu_s(top.pid)
        top.send(key)
        top.expect_exact(VIEWS[key].split()[0].encode())
        walls.append((time.perf_counter() - begun) * 1e3)
        cpus.append((_cpu_s(top.pid) - before) * 1e3)
    for name, times in (("key to screen", walls), ("CPU of it", cpus)):
        most = sorted(times)[int(0.95 * (len(times) - 1))]
        print(f"{name}: median {statistics.median(times):.0f} ms, p95 {most:.0f} ms")
    top.send("q")
    top.expect(pexpect.EOF)


def _drain(top: pexpect.spawn, seconds: float) -> None:
    """Reads what comes, as a terminal does."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        try:
            top.read_nonblocking(1 << 16, timeout=left)
        except pexpect.TIMEOUT:
            return


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
