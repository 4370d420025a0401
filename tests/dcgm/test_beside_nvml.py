"""NVML over a stub of its library and the exporter together: one device, both sources."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from exporter import USUAL, Exporter, page

sys.path.insert(0, str(Path(__file__).parents[1]))

from stub_nvml.build import build, environment
from stub_nvml.cards import card, uuid, write_script

SAMPLE = """
import json, os, sys, threading
from accelprof.profiler.collectors import Context
from accelprof.profiler.collectors.runner import Runner
from accelprof.profiler.collectors.dcgm import DcgmCollector
from accelprof.profiler.collectors.nvml import NvmlCollector

context = Context(job=os.getpid(), dcgm_url=sys.argv[1])
rows, done = [], threading.Event()

def write(table, new):
    for row in new:
        rows.append((table, list(row)))
        if table == "device_sample" and row[4] is not None:
            done.set()

runner = Runner(
    [NvmlCollector(found=context.nvidia), DcgmCollector(context.nvidia, url=context.dcgm_url)],
    write, rates_hz={"dcgm": 20},
)
runner.start()
done.wait(30)
runner.close()
print(json.dumps([row for row in rows if row[0] in ("device", "device_sample")]))
"""


def test_an_a100_has_its_profiling_counters_from_the_exporter(tmp_path):
    build(tmp_path)
    script = write_script(tmp_path / "script", [card("a100-80")])
    exporter = Exporter(page({uuid(1): USUAL}))
    try:
        done = subprocess.run(
            [sys.executable, "-c", SAMPLE, exporter.url], env=environment(tmp_path, script),
            text=True, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        exporter.close()
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row[0] for table, row in rows if table == "device"] == [0]
    samples = [row for table, row in rows if table == "device_sample"]
    assert {row[1] for row in samples} == {0}
    by_dcgm = [row for row in samples if row[4] is not None]
    assert by_dcgm[0][4:8] == [0.82, 0.92926, 0.690789, 0.31]
    assert by_dcgm[0][2] is None  # busy_share is NVML's
    assert any(row[2] is not None for row in samples)
