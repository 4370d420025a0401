"""The TPU collector against a real gRPC server in this process."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="grpcio is an optional extra: pip install 'accelprof[tpu]'")

import grpc
from runtime import GARBAGE, HANG, Runtime, chips, gauge, histogram

from accelprof.profiler.collectors import Finished
from accelprof.profiler.collectors.nvml_driver import Missing
from accelprof.profiler.collectors.nvml_fields import COLUMNS
from accelprof.profiler.collectors.tpu import TpuCollector
from accelprof.profiler.collectors.tpu_service import INSTALL

S = 10**9
T0 = 1_700_000_000 * S
GIB = 2**30
USED = "tpu.runtime.hbm.memory.usage.bytes"
TOTAL = "tpu.runtime.hbm.memory.total.bytes"
DUTY = "tpu.runtime.tensorcore.dutycycle.percent"
BANDWIDTH = "tpu.runtime.hbm.utilization.percent"
COLUMN = {
    USED: "memory_used_bytes",
    TOTAL: "memory_total_bytes",
    DUTY: "busy_share",
    BANDWIDTH: "dram_share",
}
H2D = "megascale.host_to_device_transfer_latencies.microsecond.cumulative.distribution"


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    server = Runtime()
    yield server
    server.close()


def usual(runtime: Runtime, devices: int, total: int, duties: int | None = None) -> None:
    runtime.metrics = {
        TOTAL: [gauge(n, total) for n in range(devices)],
        USED: [gauge(n, (n + 1) * GIB) for n in range(devices)],
        DUTY: [gauge(n, 10.0 * n) for n in range(devices if duties is None else duties)],
        BANDWIDTH: [gauge(n, 25.0) for n in range(devices)],
    }


class Played:
    """A collector after its probe, sampled by the second."""

    def __init__(self, root: Path, *ports: int, **options: Any) -> None:
        variable = {"TPU_RUNTIME_METRICS_PORTS": ",".join(map(str, ports))}
        self.collector = TpuCollector(
            root=root, environment=variable, **{"sdk": lambda: None, "timeout_s": 2.0} | options
        )
        self.gaps = self.collector.probe()
        self.second = 0
        self.rows: list[tuple[str, Any]] = []

    def sample(self, seconds: int = 1) -> list[dict[str, Any]]:
        """The new rows of device_sample, by column."""
        new = self.collector.sample(T0 + self.second * S)
        self.second += seconds
        self.rows += new
        names = ("t_ns", "device", *COLUMNS)
        return [dict(zip(names, row, strict=True)) for t, row in new if t == "device_sample"]

    def reasons(self) -> list[tuple[str, int | None, str]]:
        """Gaps: metric, device, reason; without the absent SDK's."""
        found = [(row[2], row[3], row[4]) for table, row in self.rows if table == "gap"]
        return [gap for gap in found if gap[0] != "tensor_share"]

    def events(self, kind: str) -> list[dict[str, Any]]:
        found = [row for table, row in self.rows if table == "event"]
        return [json.loads(row[4]) for row in found if row[1] == kind]


def test_without_chips_there_is_one_gap_and_nothing_is_asked(tmp_path):
    played = Played(tmp_path, grpc=lambda: pytest.fail("gRPC was loaded without chips"))
    assert [gap.metric for gap in played.gaps] == ["*"]
    with pytest.raises(Finished):
        played.sample()


def test_without_grpcio_the_chips_are_devices_and_the_gap_says_what_to_install(tmp_path):
    played = Played(chips(tmp_path, "tpu-v5e", 4), grpc=lambda: Missing(INSTALL))
    (gap,) = played.gaps
    assert gap.metric == "*"
    assert gap.reason == (
        "4 TPU chips are here, but grpcio is not installed: pip install 'accelprof[tpu]'"
    )
    assert played.sample() == []
    assert [row["catalogue"] for table, row in played.rows if table == "device"] == ["tpu-v5e"] * 4
    with pytest.raises(Finished):
        played.sample()


def test_one_reading_a_chip(tmp_path, runtime):
    usual(runtime, 4, 16 * GIB)
    played = Played(chips(tmp_path, "tpu-v5e", 4), runtime.port)
    samples = played.sample()
    assert [row["device"] for row in samples] == [0, 1, 2, 3]
    assert [row["memory_used_bytes"] // GIB for row in samples] == [1, 2, 3, 4]
    assert [row["memory_total_bytes"] for row in samples] == [16 * GIB] * 4
    assert [row["busy_share"] for row in samples] == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert [row["dram_share"] for row in samples] == [0.25] * 4
    devices = [row for table, row in played.rows if table == "device"]
    # The runtime's order is that of the IOMMU groups, here against that of the bus.
    assert [row["details"]["pci"][5:10] for row in devices] == ["00:07", "00:06", "00:05", "00:04"]
    assert played.reasons() == []


@pytest.mark.parametrize(
    "kind, total, busy",
    [
        ("tpu-v3", 16, [0.0, 0.1]),  # per chip
        ("tpu-v3", 16, [0.05, 0.25]),  # means of two cores
        ("tpu-v7x", 96, [0.0, 0.1]),
    ],
)
def test_two_cores_are_one_chip(tmp_path, runtime, kind, total, busy):
    duties = 2 if busy[0] == 0 else 4
    usual(runtime, 4, total * GIB, duties)
    functions = 2 if kind == "tpu-v7x" else 1
    played = Played(chips(tmp_path, kind, 2, functions), runtime.port)
    samples = played.sample()
    assert [row["memory_used_bytes"] // GIB for row in samples] == [3, 7]
    assert [row["memory_total_bytes"] // GIB for row in samples] == [2 * total] * 2
    assert [row["busy_share"] for row in samples] == pytest.approx(busy)
    assert played.reasons() == []
    counters = played.events("device-counters")
    assert [c["memory_used_bytes_by_core"] for c in counters] == [
        [GIB, 2 * GIB],
        [3 * GIB, 4 * GIB],
    ]


def test_a_process_a_chip_each_with_a_port(tmp_path, runtime):
    """Every process numbers its own chip 0; the order of the ports is all there is."""
    other = Runtime()
    try:
        for server, used in ((runtime, 5), (other, 6)):
            usual(server, 1, 32 * GIB)
            server.metrics[USED] = [gauge(0, used * GIB)]
        ports = sorted((runtime.port, other.port))
        played = Played(chips(tmp_path, "tpu-v4", 2), *ports)
        expected = [5, 6] if runtime.port < other.port else [6, 5]
        assert [row["memory_used_bytes"] // GIB for row in played.sample()] == expected
        assert played.reasons() == []
    finally:
        other.close()


def test_some_of_the_chips_are_in_use(tmp_path, runtime):
    usual(runtime, 4, 32 * GIB)
    for name in runtime.metrics:
        runtime.metrics[name] = runtime.metrics[name][2:]
    played = Played(chips(tmp_path, "tpu-v6e", 4), runtime.port)
    assert [row["device"] for row in played.sample()] == [2, 3]
    assert played.reasons() == []


def test_numbers_of_a_slice_leave_a_doubt_only_when_chips_are_idle(tmp_path, runtime):
    runtime.metrics = {USED: [gauge(n, n * GIB) for n in (12, 13, 14, 15)]}
    played = Played(chips(tmp_path, "tpu-v6e", 4), runtime.port)
    assert [row["memory_used_bytes"] // GIB for row in played.sample()] == [12, 13, 14, 15]
    assert "device" not in [metric for metric, _, _ in played.reasons()]
    runtime.metrics = {USED: [gauge(n, n * GIB) for n in (12, 13)]}
    played.sample()
    assert "assumed" in dict((m, r) for m, _, r in played.reasons())["device"]


def test_more_devices_than_this_host_can_have(tmp_path, runtime):
    usual(runtime, 8, 32 * GIB)
    played = Played(chips(tmp_path, "tpu-v6e", 4), runtime.port)
    assert played.sample() == []
    assert [metric for metric, _, _ in played.reasons()] == ["*"]


@pytest.mark.parametrize(
    "name, bad, word",
    [
        (USED, -1, "implausible"),
        (USED, 2**63 - 1, "not available"),
        (USED, 40 * GIB, "more used than there is"),
        (TOTAL, 0, "implausible"),
        (DUTY, -1.0, "implausible"),
        (DUTY, 250.0, "implausible"),
        (DUTY, float("nan"), "not available"),
        (BANDWIDTH, float("inf"), "implausible"),
    ],
)
def test_a_value_that_cannot_be_is_missing_with_its_reason(tmp_path, runtime, name, bad, word):
    column = COLUMN[name]
    usual(runtime, 2, 32 * GIB)
    runtime.metrics[name][1] = gauge(1, bad)
    played = Played(chips(tmp_path, "tpu-v6e", 2), runtime.port)
    first, second = played.sample()
    assert first[column] is not None
    assert second[column] is None
    left = {"memory_used_bytes", "busy_share", "dram_share"} - {column}
    assert all(second[other] is not None for other in left)
    played.sample()
    ((metric, device, reason),) = played.reasons()
    assert (metric, device) == (column, 1)
    assert word in reason


@pytest.mark.parametrize("name", [USED, TOTAL, DUTY, BANDWIDTH])
@pytest.mark.parametrize(
    "trouble",
    [grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNIMPLEMENTED, GARBAGE, [], HANG],
    ids=["not-found", "unimplemented", "garbage", "empty", "hang"],
)
def test_one_metric_fails_and_the_others_stay(tmp_path, runtime, name, trouble):
    usual(runtime, 2, 32 * GIB)
    runtime.metrics[name] = trouble
    played = Played(chips(tmp_path, "tpu-v6e", 2), runtime.port, timeout_s=0.4)
    for _ in range(2):
        samples = played.sample()
        assert len(samples) == 2
        for row in samples:
            assert row[COLUMN[name]] is None
            assert all(row[COLUMN[other]] is not None for other in COLUMN if other != name)
    assert [(metric, device) for metric, device, _ in played.reasons()] == [
        (COLUMN[name], 0),
        (COLUMN[name], 1),
    ]


def test_a_server_that_never_answers_costs_one_deadline_and_one_gap(tmp_path, runtime):
    names = (TOTAL, USED, DUTY, BANDWIDTH, H2D)
    runtime.metrics = dict.fromkeys(names, HANG)
    from accelprof.profiler.collectors.tpu_latency import METRICS

    runtime.metrics |= dict.fromkeys((*METRICS, "hlo.queue.size.gauge"), HANG)
    runtime.metrics["tpu.runtime.tensorcore.idle_duration.seconds"] = HANG
    played = Played(chips(tmp_path, "tpu-v6e", 4), runtime.port, timeout_s=1.0)
    began = time.monotonic()
    for _ in range(2):
        assert played.sample() == []
    played.collector.close()
    assert time.monotonic() - began < 20  # a deadline for each of them is over 40 s
    ((metric, _, reason),) = played.reasons()
    assert metric == "*"
    assert "does not answer in time" in reason


def test_a_runtime_that_starts_late_and_ends_early_is_no_gap(tmp_path):
    server = Runtime()
    port = server.port
    server.close()
    played = Played(chips(tmp_path, "tpu-v6e", 1), port)
    assert played.sample() == []
    again = Runtime(port)
    usual(again, 1, 32 * GIB)
    deadline = time.monotonic() + 10
    while not (samples := played.sample(0)) and time.monotonic() < deadline:
        time.sleep(0.1)  # gRPC looks again about once a second
    assert len(samples) == 1
    again.close()
    played.sample()
    assert played.reasons() == []


def test_a_runtime_that_stays_silent_is_told_once(tmp_path):
    server = Runtime()
    server.close()
    played = Played(chips(tmp_path, "tpu-v6e", 2), server.port)
    for _ in range(4):
        assert played.sample(seconds=6) == []
    ((metric, device, reason),) = played.reasons()
    assert (metric, device) == ("*", None)
    assert f"localhost:{server.port}" in reason


def test_ports_of_the_jobs_processes(tmp_path, runtime):
    usual(runtime, 1, 32 * GIB)
    root = chips(tmp_path, "tpu-v6e", 1)
    (root / "proc/77").mkdir(parents=True)
    (root / "proc/77/environ").write_bytes(
        f"A=1\0TPU_RUNTIME_METRICS_PORTS={runtime.port}\0".encode()
    )
    collector = TpuCollector(root=root, environment={}, pids=lambda: [77, 78], sdk=lambda: None)
    assert collector.probe() == []
    assert "device_sample" in [table for table, _ in collector.sample(T0)]
    collector.close()


def test_latencies_are_events_of_what_is_new(tmp_path, runtime):
    usual(runtime, 1, 32 * GIB)
    labels = {"buffer-size": "8MB+"}
    runtime.metrics[H2D] = [histogram(labels, [0, 100, 0, 0, 0], 1.5)]
    played = Played(chips(tmp_path, "tpu-v6e", 1), runtime.port)
    played.sample(seconds=10)
    assert played.events("tpu-latencies") == []
    # Ten of 4 to 8 us came to the hundred of 1 to 2 us.
    runtime.metrics[H2D] = [histogram(labels, [0, 100, 0, 10, 0], (150 + 60) / 110)]
    played.sample(seconds=10)
    (event,) = played.events("tpu-latencies")
    assert (event["what"], event["size"]) == ("host_to_device_transfer_latencies", "8MB+")
    assert event["count"] == 10
    assert event["mean_us"] == pytest.approx(6.0)
    assert event["p50_us"] == pytest.approx(6.0)
    assert 7.5 < event["p999_us"] <= 8
    played.sample(seconds=10)
    assert len(played.events("tpu-latencies")) == 1


def sdk_script(tmp_path: Path, text: str) -> list[str]:
    script = tmp_path / "sdk.py"
    script.write_text("import json, sys, time\n" + text)
    return [sys.executable, "-S", str(script)]


def until_heard(played: Played) -> list[dict[str, Any]]:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        samples = played.sample(0)
        gaps = [row for table, row in played.rows if table == "gap"]
        if gaps or (samples and samples[0]["tensor_share"] is not None):
            return samples
        time.sleep(0.02)
    pytest.fail("the SDK's child was not heard")


def test_tensor_share_comes_from_the_sdk(tmp_path, runtime):
    usual(runtime, 4, 16 * GIB, 2)
    line = {"tensorcore_util": ["10.00", "20.00", "30.00", "40.00"], "ici_link_health": ["0", "3"]}
    child = sdk_script(tmp_path, f"print(json.dumps({line}), flush=True)\nsys.stdin.read()\n")
    played = Played(chips(tmp_path, "tpu-v3", 2), runtime.port, sdk=lambda: child)
    samples = until_heard(played)
    assert [row["tensor_share"] for row in samples] == pytest.approx([0.15, 0.35])
    played.second += 10
    played.sample()
    assert [c["ici_link_health"] for c in played.events("device-counters")[-2:]] == [[0.0], [3.0]]
    played.collector.close()


@pytest.mark.parametrize(
    "text, word",
    [("time.sleep(60)\n", "has not answered"), ("sys.exit(139)\n", "ended with status 139")],
    ids=["hangs", "crashes"],
)
def test_an_sdk_in_trouble_costs_the_tensor_share_alone(tmp_path, runtime, text, word):
    usual(runtime, 1, 32 * GIB)
    child = sdk_script(tmp_path, text)
    played = Played(
        chips(tmp_path, "tpu-v6e", 1), runtime.port, sdk=lambda: child, sdk_deadline_s=0.5
    )
    (row,) = until_heard(played)
    assert row["busy_share"] is not None and row["tensor_share"] is None
    ((_, metric, device, reason),) = [r[1:] for table, r in played.rows if table == "gap"]
    assert (metric, device) == ("tensor_share", None)
    assert word in reason
    played.collector.close()
