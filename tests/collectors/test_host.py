"""The host collector on recorded trees of /proc and /sys, and on this machine."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from trees import V1, V2, S, write_tree

from accelprof.profiler.collectors.cgroups import Cgroup
from accelprof.profiler.collectors.host import HostCollector, cpu_device

STAT = """cpu  {user} 0 {system} {idle} {iowait} 0 0 0 0 0
cpu0 {user} 0 0 500 0 0 0 0 0 0
cpu1 100 0 {system} {idle} {iowait} 0 0 0 0 0
intr 1 2 3
"""


def row(collector: HostCollector, t_ns: int) -> dict:
    ((table, found),) = collector.sample(t_ns)
    assert table == "host_sample"
    return found


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path, V2)


def test_first_row_has_levels_and_no_rates(tree):
    found = row(HostCollector(root=tree), S)
    assert found["memory_total_bytes"] == 16_000_000 * 1024
    assert found["memory_used_bytes"] == 4_000_000 * 1024
    assert found["load_1m"] == 1.5
    assert found["cpu_share"] is None
    assert found["disk_read_bytes_per_s"] is None
    assert found["psi_io_share"] is None


def test_rates_and_shares(tree):
    collector = HostCollector(root=tree)
    (tree / "proc/stat").write_text(STAT.format(user=100, system=100, idle=1000, iowait=0))
    row(collector, S)
    (tree / "proc/stat").write_text(STAT.format(user=150, system=120, idle=1060, iowait=20))
    (tree / "proc/diskstats").write_text(
        " 8 0 sda 10 0 4000 0 10 0 2000 0 0 0 0\n 8 1 sda1 10 0 4000 0 10 0 2000 0 0 0 0\n"
        " 7 0 loop0 10 0 4000 0 10 0 2000 0 0 0 0\n"
    )
    net = (tree / "proc/net/dev").read_text().replace("eth0: 1000", "eth0: 5000")
    (tree / "proc/net/dev").write_text(net)
    io = tree / "sys/fs/cgroup/kubepods/pod1/job/io.stat"
    io.write_text("8:0 rbytes=5000 wbytes=500\n8:16 rbytes=24 wbytes=100\n")
    (tree / "proc/pressure/io").write_text("some avg10=0.00 total=1500000\nfull total=1\n")
    found = row(collector, 3 * S)
    assert found["cpu_core_share"] == [1.0, 0.2]
    assert found["cpu_share"] == pytest.approx(0.6)
    assert found["iowait_share"] == pytest.approx(20 / 150)
    assert found["disk_read_bytes_per_s"] == 3000 * 512 / 2
    assert found["disk_write_bytes_per_s"] == 1000 * 512 / 2
    assert found["cgroup_read_bytes_per_s"] == 2000
    assert found["cgroup_write_bytes_per_s"] == 50
    assert found["net_rx_bytes_per_s"] == 2000
    assert found["net_tx_bytes_per_s"] == 0
    assert found["psi_io_share"] == 0.25
    assert found["psi_cpu_share"] == 0


def test_counters_that_run_back(tree):
    collector = HostCollector(root=tree)
    (tree / "proc/stat").write_text(STAT.format(user=100, system=100, idle=1000, iowait=50))
    row(collector, S)
    (tree / "proc/stat").write_text(STAT.format(user=100, system=100, idle=1100, iowait=40))
    (tree / "proc/diskstats").write_text("")
    found = row(collector, 2 * S)
    assert found["iowait_share"] == 0
    assert found["disk_read_bytes_per_s"] is None


@pytest.mark.parametrize("layout", [V2, V1])
def test_cgroup(tmp_path, layout):
    tree = write_tree(tmp_path, layout)
    cgroup = Cgroup(tree)
    first = cgroup.read(S)
    assert first.quota_cores == 1.5
    assert first.memory_limit_bytes == 2**30
    assert first.memory_bytes == 300_000_000  # usage without inactive file pages
    assert first.throttled_share is None
    assert first.disk_bytes == (1024, 500)
    stat = tree / "sys/fs/cgroup" / layout.cpu / "cpu.stat"
    stat.write_text(stat.read_text().replace("nr_periods 100", "nr_periods 120"))
    stat.write_text(stat.read_text().replace("nr_throttled 10", "nr_throttled 15"))
    assert cgroup.read(2 * S).throttled_share == 0.25
    assert cgroup.read(3 * S).throttled_share == 0


@pytest.mark.parametrize(("layout", "file"), [(V2, "memory.events"), (V1, "memory.oom_control")])
def test_kills_for_lack_of_memory_are_events(tmp_path, layout, file):
    tree = write_tree(tmp_path, layout)
    folder = next((tree / "sys/fs/cgroup").rglob("memory.stat")).parent
    told = []
    collector = HostCollector(root=tree)
    for at, kills in enumerate((3, 3, 5, 5), start=1):
        (folder / file).write_text(f"low 0\noom 9\noom_kill {kills}\n")
        told.append([values for table, values in collector.sample(at * S) if table == "event"])
    assert [len(events) for events in told] == [0, 0, 1, 0]  # those from before are not this run's
    assert told[2][0][1] == "oom-kill" and told[2][0][4] == '{"count": 2}'


def package(tree: Path, number: int, microjoules: int, name: str = "package") -> None:
    zone = tree / f"sys/class/powercap/intel-rapl:{number}"
    zone.mkdir(parents=True, exist_ok=True)
    (zone / "name").write_text(f"{name}-{number}\n")
    (zone / "energy_uj").write_text(f"{microjoules}\n")
    (zone / "max_energy_range_uj").write_text("1000000000\n")


def test_power_of_the_packages_is_their_energy_over_time(tree):
    for number in (0, 1):
        package(tree, number, 900_000_000)
    package(tree, 2, 5, name="psys")  # holds the packages: not counted twice
    collector = HostCollector(root=tree)
    assert not [gap for gap in collector.probe() if gap.metric.startswith("cpu_power")]
    assert row(collector, S)["cpu_power_w"] is None
    package(tree, 0, 960_000_000)
    package(tree, 1, 20_000_000)  # started again at 1000 J
    assert row(collector, 3 * S)["cpu_power_w"] == pytest.approx((60 + 120) / 2)


def test_power_that_only_root_may_read_is_a_gap_and_never_0(tree, monkeypatch):
    package(tree, 0, 900_000_000)
    read = Path.read_text

    def refused(path: Path, *args, **kwargs) -> str:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return read(path, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", refused)  # tests may run as root
    collector = HostCollector(root=tree)
    (gap,) = [gap for gap in collector.probe() if gap.metric == "cpu_power_w"]
    assert "readable by root only" in gap.reason
    row(collector, S)
    assert row(collector, 2 * S)["cpu_power_w"] is None


def test_missing_sources_are_one_gap_each(tmp_path):
    gaps = HostCollector(root=tmp_path).probe()
    assert sorted(gap.metric for gap in gaps) == [
        "cgroup_disk.*", "cgroup_memory_bytes", "cpu", "cpu_power.*", "disk", "net", "psi",
    ]  # fmt: skip
    found = row(HostCollector(root=tmp_path), S)
    assert {name for name, value in found.items() if value is not None} == {"t_ns"}


def test_cpu_device(tree):
    found = cpu_device(tree)
    assert found["name"] == "AMD EPYC 7B13 64-Core Processor"
    assert found["kind"] == "cpu"
    assert found["memory_bytes"] == 2**30  # the cgroup's, less than the host's
    assert found["details"]["cores_usable"] == 1.5 or os.cpu_count() == 1
    assert found["details"]["simd"] == ["avx2", "fma"]


def test_this_machine():
    collector = HostCollector(job=os.getpid())
    assert {gap.metric for gap in collector.probe()} <= {
        "psi",
        "cgroup_memory_bytes",
        "cgroup_disk.*",
        "cpu_power.*",
        "cpu_power_w",
    }
    row(collector, time.time_ns())
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    found = row(collector, time.time_ns())
    assert 0 < found["cpu_share"] <= 1
    assert len(found["cpu_core_share"]) == os.cpu_count()
    assert found["shm_total_bytes"]
    assert cpu_device()["memory_bytes"]


def test_cost():
    collector = HostCollector(job=os.getpid())
    collector.probe()
    began = time.thread_time()
    for _ in range(50):
        collector.sample(time.time_ns())
    assert (time.thread_time() - began) / 50 < 0.005  # at 2 Hz: 1 % of a core; measured 0.3 ms
