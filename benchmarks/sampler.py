"""Cost of sampling 8 GPUs at 10 Hz on the stub NVML: accelprof, a plain poll loop, nvitop.

    python benchmarks/sampler.py [--seconds 20] [--devices 8] [--rate 10] [--nvitop PYTHON]

Each runs in its own process over the same stub (tests/stub_nvml), whose PCIe throughput call blocks
for 20 ms like the real one. Shown: CPU of the whole process in per cent of one core, the longest
time one sample took, memory. A driver's own calls cost more than the stub's: the difference between
the samplers is what is measured, and that a slow call delays no sample. `--nvitop` names an
interpreter with nvitop; without it nvitop is tried in this one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from stub_nvml.build import build, environment
from stub_nvml.cards import card, write_script

# Runs `sample()` at a fixed rate; prints what it cost.
LOOP = """
import json, resource, sys, time
seconds, rate = float(sys.argv[1]), float(sys.argv[2])
sample(); time.sleep(0.6); sample()
cpu, began, longest, count = time.process_time(), time.perf_counter(), 0.0, 0
while count < seconds * rate:
    due = began + count / rate
    if (wait := due - time.perf_counter()) > 0: time.sleep(wait)
    entered = time.perf_counter()
    sample()
    longest = max(longest, time.perf_counter() - entered)
    count += 1
wall = time.perf_counter() - began
status = open('/proc/self/status').read()
rss = int(status.split('VmRSS:')[1].split()[0]) * 1024
print(json.dumps({'cpu_share': (time.process_time() - cpu) / wall, 'longest_s': longest,
                  'rss_bytes': rss, 'rate_hz': count / wall}))
"""
OURS = """
import time
from accelprof.profiler.collectors.nvml_sampling import Sampling
sampling = Sampling()
assert sampling.open(), sampling.failure
def sample(): return sampling.sample(time.time_ns())
"""
OURS_ALL = ("accelprof", "with a job's 20 processes")
WITH_JOB = (
    OURS
    + """
import atexit, subprocess
from accelprof.profiler.collectors.host import HostCollector
from accelprof.profiler.collectors.processes import ProcessCollector
job = [subprocess.Popen(['sleep', '600']) for _ in range(20)]
atexit.register(lambda: [child.kill() for child in job])
others = [HostCollector(), ProcessCollector(lambda: [child.pid for child in job])]
passes = 0
def sample():
    global passes
    passes += 1
    if passes % 5 == 0:
        for one in others: one.sample(time.time_ns())
    return sampling.sample(time.time_ns())
"""
)
POLL = """
from pynvml import *
nvmlInit()
handles = [nvmlDeviceGetHandleByIndex(i) for i in range(nvmlDeviceGetCount())]
def sample():
    return [(nvmlDeviceGetUtilizationRates(h), nvmlDeviceGetMemoryInfo(h),
             nvmlDeviceGetPowerUsage(h), nvmlDeviceGetTotalEnergyConsumption(h),
             nvmlDeviceGetClockInfo(h, 1),
             nvmlDeviceGetClockInfo(h, 2), nvmlDeviceGetTemperature(h, 0),
             nvmlDeviceGetCurrentClocksEventReasons(h), nvmlDeviceGetEnforcedPowerLimit(h),
             nvmlDeviceGetCurrPcieLinkGeneration(h), nvmlDeviceGetCurrPcieLinkWidth(h)
             ) for h in handles]
"""
POLL_PCIE = POLL.replace(
    "             ) for",
    "             , nvmlDeviceGetPcieThroughput(h, 0), nvmlDeviceGetPcieThroughput(h, 1)) for",
)
NVITOP = """
from nvitop import Device
devices = Device.all()
def sample(): return [d.as_snapshot() for d in devices]
"""


def measure(
    body: str, library: Path, script: Path, options: argparse.Namespace, python: str
) -> dict[str, Any]:
    result = subprocess.run(
        [python, "-c", body + LOOP, str(options.seconds), str(options.rate)],
        env=environment(library, script),
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        return {"error": result.stderr.strip().splitlines()[-1]}
    cost: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return cost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--rate", type=float, default=10)
    parser.add_argument("--card", default="h100", help="a kind of tests/stub_nvml/cards.py")
    parser.add_argument("--nvitop", default=sys.executable, help="an interpreter with nvitop")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        library = build(folder / "lib")
        cards = [card(options.card, number) for number in range(options.devices)]
        head = ["slow nvmlDeviceGetPcieThroughput 20"]
        script = write_script(folder / "script", cards, head=head)
        bodies = {
            "accelprof": (OURS, sys.executable),
            "with a job's 20 processes": (WITH_JOB, sys.executable),
            "plain poll loop": (POLL, sys.executable),
            "poll loop with PCIe": (POLL_PCIE, sys.executable),
            "nvitop snapshots": (NVITOP, options.nvitop),
        }
        print(
            f"{options.devices} x {options.card} at {options.rate:g} Hz, {options.seconds:g} s each"
        )
        print(f"{'':<25} {'CPU of a core':>13} {'longest':>10} {'RSS':>9} {'rate':>8}")
        found = {}
        for name, (body, python) in bodies.items():
            found[name] = cost = measure(body, library, script, options, python)
            if "error" in cost:
                print(f"{name:<25} not measured: {cost['error'][:70]}")
                continue
            print(
                f"{name:<25} {cost['cpu_share']:>12.2%} {cost['longest_s'] * 1e3:>7.1f} ms"
                f" {cost['rss_bytes'] / 2**20:>5.0f} MiB {cost['rate_hz']:>5.1f} Hz"
            )
    ours = found["accelprof"].get("cpu_share")
    for name, cost in found.items():
        if name not in OURS_ALL and ours and "error" not in cost:
            print(f"accelprof / {name}: {ours / cost['cpu_share']:.2f}")


if __name__ == "__main__":
    main()
