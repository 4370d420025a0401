"""A driver call that hangs costs its own metrics alone, returns by itself, never holds the exit."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from stub_nvml.build import environment
from stub_nvml.cards import card, write_script

from accelprof.profiler.collectors.nvml_watch import Job, Watch


def job(key: str, results: list[str], gate: threading.Event | None = None) -> Job:
    def make() -> str:
        if gate is not None:
            gate.wait()
        return key

    return Job(key, make, results.append)


def test_a_hung_call_is_left_behind_and_the_pass_goes_on() -> None:
    gate = threading.Event()
    results: list[str] = []
    hung: list[Hashable] = []
    watch = Watch("test", deadline_s=0.05)
    jobs = [job("a", results), job("b", results, gate), job("c", results)]
    watch.run(jobs, lambda j: hung.append(j.key))
    assert (results, hung) == (["a", "c"], ["b"])
    # It is not called again while the old call is inside ...
    watch.deadline_s = 60.0
    began = time.monotonic()
    watch.run(jobs, lambda j: hung.append(j.key))
    assert time.monotonic() - began < 40
    assert (results, hung) == (["a", "c"] * 2, ["b", "b"])
    assert watch.close() is False
    # ... and again once it has returned. What the old call gave is thrown away.
    gate.set()
    while watch.stuck:
        time.sleep(0.001)
    watch = Watch("test", deadline_s=5.0)
    watch.run(jobs, lambda j: hung.append(j.key))
    assert results == ["a", "c"] * 2 + ["a", "b", "c"]
    assert watch.close() is True


def test_a_driver_that_hangs_as_a_whole_is_left_alone() -> None:
    gate = threading.Event()
    results: list[str] = []
    hung: list[Hashable] = []
    watch = Watch("test", deadline_s=0.5)  # 25 s for all of them
    jobs = [job(str(number), results, gate) for number in range(50)]
    began = time.monotonic()
    watch.run(jobs, lambda j: hung.append(j.key))
    watch.run(jobs, lambda j: hung.append(j.key))
    assert time.monotonic() - began < 20
    assert results == []
    assert hung == [j.key for j in jobs] * 2
    assert len(watch.stuck) == 3
    gate.set()


CHILD = """
import json, os, sys, time
from collections.abc import Hashable
from pathlib import Path
from typing import Any
from accelprof.profiler.collectors.nvml_sampling import Sampling

gate, opening = Path(sys.argv[1]), float(sys.argv[2])
sampling = Sampling(deadline_s=1.0)
told = {"open": sampling.open(opening)}
began = time.perf_counter()
told["rows"] = sampling.sample(1_000_000_000)
told["first_s"] = time.perf_counter() - began
sampling._watch.deadline_s = 60.0  # a call that hangs already is not waited for again
began = time.perf_counter()
told["rows"] += sampling.sample(1_600_000_000)
told["second_s"] = time.perf_counter() - began
if sys.argv[3] == "release":
    gate.touch()
    deadline = time.monotonic() + 40
    while sampling._watch.stuck and time.monotonic() < deadline:
        time.sleep(0.005)
    told["back"] = sampling.sample(2_200_000_000)
sampling.close()
print(json.dumps(told), flush=True)
"""


def run(
    library: Path, folder: Path, rule: str, release: str = "stay", opening: float = 40.0
) -> dict[str, Any]:
    """What the child tells. Its end is the proof: the gate stays shut unless it opens it."""
    gate = folder / "gate"
    made = [card("h100"), card("t4", 1)]
    made[0].rules.append(rule.format(gate=gate))
    script = write_script(folder / "script", made, head=[f"log {folder / 'calls'}"])
    result = subprocess.run(
        [sys.executable, "-c", CHILD, str(gate), str(opening), release],
        env=environment(library, script),
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    told: dict[str, Any] = json.loads(result.stdout)
    return told


def sample(rows: list[Any], device: int) -> Any:
    return [row for table, row in rows if table == "device_sample" and row[1] == device][-1]


POWER, BUSY, SM = 12, 2, 4


def test_a_hung_power_call_leaves_everything_else(stub_library: Path, tmp_path: Path) -> None:
    told = run(stub_library, tmp_path, "hang nvmlDeviceGetPowerUsage {gate}", "release")
    row = sample(told["rows"], 0)
    assert row[POWER] is None and row[BUSY] == 0.8 and row[SM] == 0.8
    gaps = [row for table, row in told["rows"] if table == "gap" and row[3] == 0]
    assert [(row[2], row[4]) for row in gaps] == [("power_w", "the driver call hangs")]
    assert sample(told["rows"], 1)[POWER] == 35.0
    assert told["first_s"] < 40 and told["second_s"] < 40
    assert sample(told["back"], 0)[POWER] == 350.0


def test_the_exit_does_not_wait_and_nvml_is_not_shut_down_under_a_call(
    stub_library: Path, tmp_path: Path
) -> None:
    run(stub_library, tmp_path, "hang nvmlDeviceGetUtilizationRates {gate}")
    calls = (tmp_path / "calls").read_text()
    assert "nvmlInit" in calls and "nvmlShutdown" not in calls


def test_pcie_throughput_that_hangs_delays_no_sample(stub_library: Path, tmp_path: Path) -> None:
    told = run(stub_library, tmp_path, "hang nvmlDeviceGetP*Throughput {gate}")
    assert told["first_s"] < 40 and told["second_s"] < 40
    assert sample(told["rows"], 0)[POWER] == 350.0


def test_opening_that_hangs_gives_no_rows_and_no_delay(stub_library: Path, tmp_path: Path) -> None:
    told = run(stub_library, tmp_path, "hang nvmlDeviceGetName {gate}", opening=0.2)
    assert told["open"] is False and told["rows"] == []
