"""`accelprof run` on machines with GPUs, with a driver that hangs, and without any."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from stub_nvml.build import environment
from stub_nvml.cards import Card, card, write_script

from accelprof.profiler.collectors.nvml import NvmlCollector
from accelprof.profiler.collectors.nvml_driver import DRIVER_NOT_LOADED, Missing
from accelprof.profiler.diagnosis import diagnose
from accelprof.storage.reader import RunReader, open_run

# Waits for as many device samples as it is told, as the run's own log of NVML calls shows them.
JOB = """
import sys, time
from pathlib import Path
calls, wanted, end = Path(sys.argv[1]), int(sys.argv[2]), time.monotonic() + 30
while time.monotonic() < end:
    text = calls.read_text() if calls.exists() else ""
    if text.count("nvmlDeviceGetUtilizationRates") >= wanted: break
    time.sleep(0.05)
sys.exit(7)
"""


def run(
    library: Path, folder: Path, cards: Sequence[Card], *, samples: int
) -> tuple[RunReader, float]:
    """Runs the job until that many utilisation calls were made; also the seconds from its end."""
    calls = folder / "calls"
    script = write_script(folder / "script", cards, head=[f"log {calls}"])
    variables = environment(library, script) | {"ACCELPROF_HOME": str(folder / "home")}
    job = [sys.executable, "-S", "-c", JOB, str(calls), str(samples)]
    result = subprocess.run(
        [sys.executable, "-m", "accelprof", "run", "--stacks", "off", "--capture", "off", *job],
        env=variables,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert result.returncode == 7, result.stderr
    assert "Traceback" not in result.stderr
    ended = time.time()
    reader = open_run(next((folder / "home/runs").iterdir()))
    ((job_ended_ns,),) = reader.rows("SELECT ended_ns FROM run")
    return reader, ended - job_ended_ns / 1e9


def test_a_run_records_every_device_and_one_that_gets_lost(
    stub_library: Path, tmp_path: Path
) -> None:
    lost = card("h100")
    lost.rules.append("fail nvmlDevice* 15 after 120")
    reader, _ = run(stub_library, tmp_path, [lost, card("t4", 1)], samples=50)
    with reader:
        devices = reader.rows("SELECT device, kind, catalogue FROM device ORDER BY device")
        assert devices == [(0, "gpu", "h100-sxm-80gb"), (1, "gpu", "t4")]
        ((count, busy),) = reader.rows(
            "SELECT count(*), avg(busy_share) FROM device_sample WHERE device = 1"
        )
        assert count >= 10
        assert busy == pytest.approx(0.8)
        ((missing,),) = reader.rows(
            "SELECT count(*) FROM device_sample WHERE device = 0 AND busy_share IS NULL"
        )
        assert missing > 0
        gaps = reader.rows("SELECT metric FROM gap WHERE source = 'nvml' AND device = 0")
        assert gaps == [("*",)]
        ((data,),) = reader.rows("SELECT data FROM event WHERE kind = 'device-lost'")
        assert json.loads(data)["device"] == 0 if isinstance(data, str) else data["device"] == 0
        report = diagnose(reader)
        assert {"device-lost", "mixed-hardware"} <= {f.id for f in report.findings}
        assert report.cost.accelerator_s == pytest.approx(2 * (report.run.wall_s or 0))
        assert report.cost.usd and "; " in (report.cost.price_source or "")


def test_a_driver_that_hangs_neither_stops_the_run_nor_its_end(
    stub_library: Path, tmp_path: Path
) -> None:
    hung = card("h100")
    hung.rules.append(f"hang nvmlDeviceGetPowerUsage {tmp_path / 'never'}")
    reader, after_s = run(stub_library, tmp_path, [hung], samples=20)
    with reader:
        ((count, busy, power),) = reader.rows(
            "SELECT count(*), count(busy_share), count(power_w) FROM device_sample"
        )
        assert (count, power) == (busy, 0)
        gaps = reader.rows("SELECT metric, reason FROM gap WHERE source = 'nvml'")
        assert gaps == [("power_w", "the driver call hangs")]
    assert after_s < 60  # the verdict's own work is in it


def test_a_driver_that_hangs_at_once_is_a_gap(stub_library: Path, tmp_path: Path) -> None:
    script = write_script(tmp_path / "script", [card("t4")], head=[f"hang nvmlInit* {tmp_path}/no"])
    code = (
        "from accelprof.profiler.collectors import nvml; nvml.OPEN_WAIT_S = 0.2\n"
        "one = nvml.NvmlCollector()\n"
        "print(one.probe()); print(one.sample(1)); one.close()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(stub_library, script),
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    assert result.stdout.splitlines() == [
        "[Gap(metric='*', reason='the driver has not answered for 0.2 s', device=None)]",
        "[]",
    ]


def test_without_a_driver_the_cpu_is_the_device_and_there_is_one_gap() -> None:
    def no_bindings() -> Missing:
        return Missing("no driver", DRIVER_NOT_LOADED)

    collector = NvmlCollector(bindings=no_bindings)
    assert [(gap.metric, gap.reason) for gap in collector.probe()] == [("*", "no driver")]
    rows: list[Any] = collector.sample(1)
    assert [table for table, _ in rows] == ["device"]
    assert rows[0][1]["kind"] == "cpu"
