"""The process collector on recorded /proc folders and on real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from trees import S

from accelprof.profiler.collectors.processes import FIRST_PSS_NS, ProcessCollector

TICKS = os.sysconf("SC_CLK_TCK")


class Proc:
    """A /proc with processes that a test makes up."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, pid: int, *, ticks: int = 0, read: int = 0, state: str = "S", start: int = 7,
            pages: int = 100):  # fmt: skip
        folder = self.root / "proc" / str(pid)
        folder.mkdir(parents=True, exist_ok=True)
        fields = [
            state,
            "1",
            *["0"] * 9,
            str(ticks),
            "0",
            "0",
            "0",
            "20",
            "0",
            "3",
            "0",
            str(start),
        ]
        (folder / "stat").write_text(f"{pid} (python (x) y) {' '.join(fields)} 0 {pages} 0\n")
        io = f"rchar: {read * 2}\nwchar: 0\nread_bytes: {read}\nwrite_bytes: {read // 2}\n"
        (folder / "io").write_text(io + "cancelled_write_bytes: 0\n")
        (folder / "smaps_rollup").write_text("00-ff ---p [rollup]\nRss: 9 kB\nPss:   5 kB\n")


@pytest.fixture
def proc(tmp_path) -> Proc:
    return Proc(tmp_path)


def rows(collector: ProcessCollector, t_ns: int) -> dict[int, dict]:
    return {r["pid"]: r for table, r in collector.sample(t_ns) if table == "process_sample"}


def test_levels_then_rates(proc):
    proc.put(10)
    collector = ProcessCollector(lambda: [10], root=proc.root)
    first = rows(collector, S)[10]
    assert first["rss_bytes"] == 100 * os.sysconf("SC_PAGE_SIZE")
    assert (first["threads"], first["state"]) == (3, "sleeping")
    assert (first["cpu_cores"], first["read_bytes_per_s"]) == (None, None)
    proc.put(10, ticks=3 * TICKS, read=1000, state="D")
    second = rows(collector, 3 * S)[10]
    assert second["cpu_cores"] == 1.5
    assert second["read_bytes_per_s"] == 500
    assert second["rchar_bytes_per_s"] == 1000
    assert second["write_bytes_per_s"] == 250
    assert second["state"] == "disk-sleep"


def test_a_process_that_is_ending_has_no_memory_to_tell(proc):
    proc.put(10, state="Z", pages=0)
    assert rows(ProcessCollector(lambda: [10], root=proc.root), S)[10]["rss_bytes"] is None


def test_processes_come_and_go_and_pids_are_reused(proc):
    pids = [10, 11]
    proc.put(10, ticks=100)
    collector = ProcessCollector(lambda: pids, root=proc.root)
    assert set(rows(collector, S)) == {10}
    proc.put(11)
    proc.put(10, ticks=1, start=99)  # another process
    second = rows(collector, 2 * S)
    assert second[10]["cpu_cores"] is None
    pids.remove(10)
    assert set(rows(collector, 3 * S)) == {11}


def test_pss_is_seldom_and_for_all_at_once(proc):
    proc.put(10)
    proc.put(11)
    collector = ProcessCollector(lambda: [10, 11], root=proc.root)
    times = [S + n * S // 2 for n in range(60)]
    with_pss = [t for t in times if any(r["pss_bytes"] for r in rows(collector, t).values())]
    assert with_pss == [S + FIRST_PSS_NS]
    again = rows(collector, 60 * S)
    assert [r["pss_bytes"] for r in again.values()] == [5 * 1024] * 2


def test_what_is_refused_is_one_gap(proc):
    proc.put(10)
    proc.put(11)
    for pid in (10, 11):
        (proc.root / f"proc/{pid}/io").unlink()
        (proc.root / f"proc/{pid}/smaps_rollup").unlink()
    collector = ProcessCollector(lambda: [10, 11], root=proc.root)
    gaps = [row for t in range(1, 80) for table, row in collector.sample(t * S) if table == "gap"]
    assert sorted(gap[2] for gap in gaps) == ["pss_bytes", "read_bytes_per_s"]


def test_real_processes():
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    idle = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        collector = ProcessCollector(lambda: [busy.pid, idle.pid, 2**22 + 1])
        rows(collector, time.time_ns())
        spent = Path(f"/proc/{busy.pid}/schedstat")
        begun = int(spent.read_text().split()[0])
        deadline = time.monotonic() + 20
        while int(spent.read_text().split()[0]) - begun < 10**8 and time.monotonic() < deadline:
            os.sched_yield()
        found = rows(collector, time.time_ns())
        assert found[busy.pid]["cpu_cores"] > found[idle.pid]["cpu_cores"]
        assert found[idle.pid]["rss_bytes"] > 1 << 20
        busy.kill()
        busy.wait()
        assert set(rows(collector, time.time_ns())) == {idle.pid}
    finally:
        busy.kill()
        idle.kill()
        busy.wait()
        idle.wait()


def test_cost_of_twenty_processes():
    collector = ProcessCollector(lambda: [os.getpid()] * 20)
    collector.sample(1)
    began = time.thread_time()
    for n in range(50):
        collector.sample(2 + n)
    assert (time.thread_time() - began) / 50 < 0.01  # at 2 Hz: 2 % of a core; measured 1 ms
