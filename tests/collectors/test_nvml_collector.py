"""The NVML collector: a device when there is one, else one gap and the CPU as the device."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from accelprof.profiler.collectors import Finished
from accelprof.profiler.collectors.nvml import NvmlCollector
from accelprof.profiler.collectors.nvml_driver import Missing

sys.path.insert(0, str(Path(__file__).parents[1]))

from stub_nvml.build import build, environment
from stub_nvml.cards import card, write_script

S = 1_000_000_000


def test_without_a_driver_the_cpu_is_the_device():
    collector = NvmlCollector(bindings=lambda: Missing("no NVIDIA driver on this host"))
    assert [(gap.metric, gap.reason) for gap in collector.probe()] == [
        ("*", "no NVIDIA driver on this host")
    ]
    ((table, row),) = collector.sample(S)
    assert (table, row["kind"], row["device"]) == ("device", "cpu", 0)
    with pytest.raises(Finished):
        collector.sample(2 * S)
    collector.close()


SAMPLE = """
    import json, time
    from accelprof.profiler.collectors.nvml import NvmlCollector
    collector = NvmlCollector()
    gaps = [list(gap) for gap in collector.probe()]
    rows = [row for n in range(3) for row in collector.sample(time.time_ns())]
    collector.close()
    print(json.dumps([gaps, rows]))
"""


def test_a_device_with_one_field_that_it_lacks(tmp_path):
    """One metric that is not supported is one gap; the row and the device stay."""
    build(tmp_path)
    script = write_script(tmp_path / "script", [card("h100", power_mw=None)])
    code = "\n".join(line.strip() for line in SAMPLE.splitlines())
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(tmp_path, script), text=True,
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    gaps, rows = json.loads(done.stdout)
    assert gaps == []
    devices = [row for table, row in rows if table == "device"]
    assert [(d[0], d[3]) for d in devices] == [(0, "gpu")]
    samples = [row for table, row in rows if table == "device_sample"]
    assert len(samples) == 3
    missing = {row[2] for table, row in rows if table == "gap" and row[0]}
    assert "power_w" in missing
    assert samples[-1][2] == pytest.approx(0.8)  # busy_share
