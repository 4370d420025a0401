"""The real tpu-info reads the same server: what it says and what we store must be the same.

tpu-info wants packages that accelprof does not need, so it is installed into an environment of its
own, once, in pytest's cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="grpcio is an optional extra: pip install 'accelprof[tpu]'")

from runtime import Runtime, chips, gauge, histogram

from accelprof.profiler.collectors.nvml_fields import COLUMNS
from accelprof.profiler.collectors.tpu import TpuCollector
from accelprof.profiler.collectors.tpu_latency import METRICS
from accelprof.profiler.collectors.tpu_service import Service, load_grpc

VERSION = "0.14.2"
GIB = 2**30
S = 10**9
READ = """
import json, sys
from tpu_info import device, metrics
address = "localhost:" + sys.argv[1]
chip = device.TpuChip[sys.argv[2]]
usage = metrics.get_chip_usage(chip, address)
bandwidth = metrics.get_runtime_hbm_utilization(address)
latency = metrics.get_transfer_latency("host_to_device_transfer_latency", address)
timing = metrics.get_hlo_exec_timing(chip, address)
print(json.dumps([[list(u) for u in usage], bandwidth, [list(l) for l in latency],
                  [list(t) for t in timing]]))
"""


@pytest.fixture(scope="module")
def tpu_info(request: pytest.FixtureRequest) -> Path:
    """A Python that has tpu-info."""
    folder = Path(request.config.cache.mkdir(f"tpu-info-{VERSION}"))
    python = folder / "bin/python"
    if not (folder / "done").exists():
        install = [python, "-m", "pip", "install", "-q", f"tpu-info=={VERSION}"]
        for command in ([sys.executable, "-m", "venv", folder], install):
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=90, check=False
                )
            except subprocess.TimeoutExpired:
                pytest.skip(f"tpu-info {VERSION} could not be installed within 90 s")
            if done.returncode:
                pytest.skip(f"tpu-info {VERSION} could not be installed: {done.stderr[-300:]}")
        (folder / "done").touch()
    return python


@pytest.mark.parametrize("kind, devices, total", [("tpu-v6e", 4, 32), ("tpu-v3", 8, 16)])
def test_tpu_info_reads_the_same(tmp_path, tpu_info, kind, devices, total):
    runtime = Runtime()
    try:
        runtime.metrics = {
            "tpu.runtime.hbm.memory.total.bytes": [gauge(n, total * GIB) for n in range(devices)],
            "tpu.runtime.hbm.memory.usage.bytes": [
                gauge(n, (n + 1) * GIB // 3) for n in reversed(range(devices))
            ],
            "tpu.runtime.tensorcore.dutycycle.percent": [gauge(n, 12.5 * n) for n in range(4)],
            "tpu.runtime.hbm.utilization.percent": [gauge(n, 7.5 * n) for n in range(devices)],
            METRICS[2]: [histogram({"buffer-size": "8MB+"}, [0, 5, 90, 5, 0], 3.0)],
            METRICS[-1]: [histogram({"device_ordinal": "1"}, [0, 2, 8, 0, 0], 2.5)],
        }
        done = subprocess.run(
            [tpu_info, "-c", READ, str(runtime.port), kind[4:].upper()],
            env=os.environ | {"GRPC_VERBOSITY": "NONE"}, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        usage, bandwidth, latency, timing = json.loads(done.stdout)
        collector = TpuCollector(
            root=chips(tmp_path, kind, 4), sdk=lambda: None, timeout_s=3.0,
            environment={"TPU_RUNTIME_METRICS_PORTS": str(runtime.port)},
        )  # fmt: skip
        assert collector.probe() == []
        rows = [row for table, row in collector.sample(S) if table == "device_sample"]
        service = Service(load_grpc(), 3.0)
        told = service.ask(METRICS, [runtime.port])
        service.close()
        collector.close()
    finally:
        runtime.close()
    cores = devices // 4
    for row in rows:
        ours = dict(zip(("t_ns", "device", *COLUMNS), row, strict=True))
        theirs = [u for u in usage if u[0] // cores == ours["device"]]
        assert len(theirs) == cores
        assert ours["memory_used_bytes"] == sum(u[1] for u in theirs)
        assert ours["memory_total_bytes"] == sum(u[2] for u in theirs)
        assert all(u[3] == pytest.approx(ours["busy_share"] * 100) for u in theirs)
        used = [b[1] for b in bandwidth if b[0] // cores == ours["device"]]
        assert ours["dram_share"] * 100 == pytest.approx(sum(used) / cores)
    assert len(rows) == 4
    for metric, (_, p50, p90, *_) in ((METRICS[2], latency[0]), (METRICS[-1], timing[0][1:])):
        (reading,) = told[metric][runtime.port]
        assert reading.distribution.quantile(0.5) == pytest.approx(p50, rel=0.02)
        assert reading.distribution.quantile(0.9) == pytest.approx(p90, rel=0.02)
    (reading,) = told[METRICS[-1]][runtime.port]
    assert reading.device == timing[0][0] == 1
