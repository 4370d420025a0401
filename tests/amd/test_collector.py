"""The AMD collector over trees of /sys and over bindings that answer oddly."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from gpus import GIB, Smi, SmiError, readings, tree

from accelprof.profiler.collectors import Finished
from accelprof.profiler.collectors.amd import AmdCollector
from accelprof.profiler.collectors.nvml_driver import Missing
from accelprof.profiler.collectors.nvml_fields import COLUMNS

S = 10**9
T0 = 1_700_000_000 * S
NO_SMI = Missing("amdsmi is not installed")
READ = {
    "busy_share", "memory_busy_share", "memory_used_bytes", "memory_total_bytes", "power_w",
    "power_limit_w", "temperature_c", "sm_clock_hz", "memory_clock_hz", "pcie_generation",
    "pcie_width",
}  # fmt: skip


class Played:
    """A collector after its probe, sampled by the second."""

    def __init__(self, root: Path, smi: Any = NO_SMI, deadline_s: float = 5.0) -> None:
        self.collector = AmdCollector(root=root, amdsmi=lambda: smi, deadline_s=deadline_s)
        self.gaps = self.collector.probe()
        self.t_ns = T0
        self.rows: list[tuple[str, Any]] = []

    def sample(self) -> list[dict[str, Any]]:
        new = self.collector.sample(self.t_ns)
        self.t_ns += S
        self.rows += new
        names = ("t_ns", "device", *COLUMNS)
        return [dict(zip(names, row, strict=True)) for t, row in new if t == "device_sample"]

    def devices(self) -> list[dict[str, Any]]:
        found = [row for table, row in self.rows if table == "device"]
        return [row | {"details": json.loads(row["details"])} for row in found]

    def reasons(self) -> dict[str, str]:
        """Reasons by column, each told once; without that of integrated energy."""
        gaps = [row for table, row in self.rows if table == "gap"]
        assert len({(row[2], row[3]) for row in gaps}) == len(gaps)
        return {row[2]: row[4] for row in gaps if "integrated" not in row[4]}


def test_without_a_gpu_there_is_one_gap(tmp_path):
    played = Played(tmp_path, smi=None)
    assert [gap.metric for gap in played.gaps] == ["*"]
    with pytest.raises(Finished):
        played.sample()


def test_a_gpu_without_its_driver_is_one_gap(tmp_path):
    bare = dict.fromkeys(("gpu_busy_percent", "mem_info_vram_total"))
    played = Played(tree(tmp_path, bare))
    ((metric, reason, _),) = played.gaps
    assert metric == "*"
    assert "amdgpu" in reason and "amdsmi is not installed" in reason


def test_the_drivers_files(tmp_path):
    played = Played(tree(tmp_path, {}, {"gpu_busy_percent": "0", "unique_id": None}))
    first, second = played.sample()
    assert (first["device"], second["device"]) == (0, 1)
    assert first["busy_share"] == 0.98 and second["busy_share"] == 0.0
    assert first["memory_busy_share"] == 0.37
    assert first["memory_used_bytes"] == 120 * GIB
    assert first["memory_total_bytes"] == 192 * GIB
    assert (first["power_w"], first["power_limit_w"]) == (612.0, 750.0)
    assert first["temperature_c"] == 71.0
    assert (first["sm_clock_hz"], first["memory_clock_hz"]) == (2_100_000_000, 1_300_000_000)
    assert (first["pcie_generation"], first["pcie_width"]) == (5, 16)
    one, two = played.devices()
    assert one["catalogue"] == "mi300x"
    assert one["uuid"] == "GPU-0123456789abcdef" and two["uuid"] is None
    assert one["details"]["pci"] == "0000:01:00.0"
    assert one["details"]["energy"] == "integrated"
    assert played.reasons() == {}
    assert [gap.metric.split(", ")[0] for gap in played.gaps] == ["sm_share"]


def test_energy_without_a_counter_is_the_integral_of_power(tmp_path):
    played = Played(tree(tmp_path, {}))
    assert [played.sample()[0]["energy_j"] for _ in range(3)] == [None, 612.0, 1224.0]
    (reason,) = [row[4] for table, row in played.rows if table == "gap"]
    assert "integrated from power samples" in reason


FIELD = {  # file: column
    "gpu_busy_percent": "busy_share",
    "mem_busy_percent": "memory_busy_share",
    "mem_info_vram_used": "memory_used_bytes",
    "hwmon/hwmon7/power1_cap": "power_limit_w",
    "hwmon/hwmon7/temp2_input": "temperature_c",
    "hwmon/hwmon7/freq1_input": "sm_clock_hz",
    "hwmon/hwmon7/freq2_input": "memory_clock_hz",
    "current_link_speed": "pcie_generation",
    "current_link_width": "pcie_width",
}


@pytest.mark.parametrize("file", FIELD)
@pytest.mark.parametrize("content", [None, "", "N/A", "18446744073709551615", "-7000000000"])
def test_one_file_in_trouble_costs_its_own_column(tmp_path, file, content):
    played = Played(tree(tmp_path, {file: content}, {}))
    for _ in range(2):
        bad, good = played.sample()
        assert {column for column in READ if bad[column] is None} == {FIELD[file]}
        assert all(good[column] is not None for column in READ)
    assert set(played.reasons()) == {FIELD[file]}


@pytest.mark.parametrize(
    "changes, column, word",
    [
        ({"hwmon/hwmon7/power1_input": "0"}, "power_w", "0 W while busy"),
        ({"hwmon/hwmon7/power1_input": "16777215000000"}, "power_w", "implausible reading"),
        ({"mem_info_vram_used": str(200 * GIB)}, "memory_used_bytes", "more used than there is"),
        ({"gpu_busy_percent": "65535"}, "busy_share", "implausible"),
        ({"hwmon/hwmon7/temp2_input": "511000"}, "temperature_c", "implausible"),
    ],
)
def test_implausible_readings_are_missing(tmp_path, changes, column, word):
    played = Played(tree(tmp_path, changes))
    (row,) = played.sample()
    assert row[column] is None
    assert word in played.reasons()[column]


def test_the_two_dies_of_an_mi250x(tmp_path):
    die = {"device": "0x7408", "hwmon/hwmon7/power1_input": None}
    second = die | {"hwmon/hwmon7/power1_average": "0", "gpu_busy_percent": "3"}
    root = tree(tmp_path, die | {"hwmon/hwmon7/power1_average": "480000000"}, second)
    played = Played(root)
    one, two = played.sample()
    assert one["power_w"] == 480.0 and two["power_w"] is None
    assert "the first die reports" in played.reasons()["power_w"]
    assert {device["catalogue"] for device in played.devices()} == {None}
    assert all("two dies" in device["details"]["facts"][0] for device in played.devices())


def test_amdsmi(tmp_path):
    smi = Smi(readings(amdsmi_get_gpu_device_bdf="0000:22:00.0"), readings())
    played = Played(tree(tmp_path, {}, {}), smi)
    row, _ = played.sample()
    assert [device["details"]["pci"] for device in played.devices()] == [
        "0000:0c:00.0",
        "0000:22:00.0",
    ]
    assert {column for column in READ if row[column] is None} == set()
    assert row["memory_used_bytes"] == 120 * GIB
    assert row["power_limit_w"] == 750.0
    assert row["energy_j"] == pytest.approx(153_000)
    assert row["pcie_generation"] == 5
    assert played.devices()[0]["details"]["energy"] == "counter"
    assert played.reasons() == {}
    played.collector.close()
    assert smi.shut_down


ANSWERS = {  # function: (columns, with "N/A" in all places)
    "amdsmi_get_gpu_activity": (
        {"busy_share", "memory_busy_share"},
        {"gfx_activity": "N/A", "umc_activity": "N/A"},
    ),
    "amdsmi_get_gpu_vram_usage": (
        {"memory_used_bytes", "memory_total_bytes"},
        {"vram_used": "N/A", "vram_total": "N/A"},
    ),
    "amdsmi_get_power_info": ({"power_w"}, {"current_socket_power": "N/A"}),
    "amdsmi_get_power_cap_info": ({"power_limit_w"}, {"power_cap": "N/A"}),
    "EDGE": ({"temperature_c"}, "N/A"),
    "GFX": ({"sm_clock_hz"}, {"clk": "N/A"}),
    "MEM": ({"memory_clock_hz"}, {"clk": "N/A"}),
    "amdsmi_get_pcie_info": (
        {"pcie_generation", "pcie_width"},
        {"pcie_metric": {"pcie_speed": "N/A", "pcie_width": "N/A"}},
    ),
}


@pytest.mark.parametrize("function", ANSWERS)
@pytest.mark.parametrize("trouble", ["N/A", "raises", "key", "none"])
def test_one_function_in_trouble_costs_its_own_columns(tmp_path, function, trouble):
    columns, not_available = ANSWERS[function]
    answer = {
        "N/A": not_available, "raises": SmiError(), "key": KeyError("libamd_smi.so"), "none": None,
    }[trouble]  # fmt: skip
    changes = {function: answer, "JUNCTION": SmiError()}
    played = Played(tree(tmp_path, {}), Smi(readings(**changes)))
    for _ in range(2):
        (row,) = played.sample()
        assert {column for column in READ if row[column] is None} == columns
    assert set(played.reasons()) == columns
    if trouble == "raises":
        assert "AMDSMI_STATUS_NOT_SUPPORTED - Feature not supported" in played.reasons().values()


@pytest.mark.parametrize(
    "power, watts",
    [
        ({"current_socket_power": "N/A", "average_socket_power": 240}, 240.0),  # MI210
        ({"current_socket_power": 500, "average_socket_power": "N/A"}, 500.0),  # MI300X
        ({"current_socket_power": 0, "average_socket_power": 240}, 240.0),
        ({"current_socket_power": 4294967295, "average_socket_power": "N/A"}, None),
        ({"current_socket_power": 0, "average_socket_power": "N/A"}, None),  # while busy
    ],
)
def test_power_by_whichever_key_has_it(tmp_path, power, watts):
    played = Played(tree(tmp_path, {}), Smi(readings(amdsmi_get_power_info=power)))
    (row,) = played.sample()
    assert row["power_w"] == watts


def test_an_energy_counter_that_jumps_costs_one_sample(tmp_path):
    gpu = readings()
    played = Played(tree(tmp_path, {}), Smi(gpu))
    seen = []
    for counter in (1e10, 1e10 + 4e7, 1e11, 1e11 + 4e7):
        gpu["amdsmi_get_energy_count"] = {
            "energy_accumulator": counter, "counter_resolution": 15.3,
        }  # fmt: skip
        seen.append(played.sample()[0]["energy_j"])
    assert seen[2] is None
    assert seen[1] - seen[0] == pytest.approx(612)
    assert seen[3] - seen[1] == pytest.approx(612)
    assert "implausible jump" in played.reasons()["energy_j"]


def test_a_call_that_hangs_costs_its_own_column_and_one_deadline(tmp_path):
    never = threading.Event()
    smi = Smi(readings(amdsmi_get_power_cap_info=never), readings())
    played = Played(tree(tmp_path, {}, {}), smi, deadline_s=0.3)
    try:
        began = time.monotonic()
        for _ in range(3):
            bad, good = sorted(played.sample(), key=lambda row: row["power_limit_w"] or 0)
            assert {column for column in READ if bad[column] is None} == {"power_limit_w"}
            assert all(good[column] is not None for column in READ)
        assert time.monotonic() - began < 40
        assert played.reasons() == {"power_limit_w": "the driver call hangs"}
        played.collector.close()
        assert not smi.shut_down  # a call is still inside
    finally:
        never.set()


def test_amdsmi_without_gpus_falls_back_on_the_files(tmp_path):
    played = Played(tree(tmp_path, {}), Smi())
    assert len(played.sample()) == 1
    assert played.devices()[0]["details"]["source"] == "sysfs (amdsmi lists no GPU)"


LOAD = """
import sys
from accelprof.profiler.collectors.amd_smi import load_amdsmi
print("loaded", load_amdsmi().reason, "amdsmi" in sys.modules)
"""


@pytest.mark.parametrize("body", ["print('noise')\n{}['libamd_smi.so']", "raise OSError('no lib')"])
def test_bindings_that_fail_at_import_are_a_reason_and_no_noise(tmp_path, body):
    """Without ROCm the real ones print to stdout and raise KeyError."""
    (tmp_path / "amdsmi.py").write_text(body + "\n")
    done = subprocess.run(
        [sys.executable, "-c", LOAD], env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("loaded amdsmi fails: ")
    assert "noise" not in done.stdout


@pytest.mark.skipif(importlib.util.find_spec("amdsmi") is not None, reason="amdsmi is installed")
def test_bindings_that_are_absent_are_a_reason():
    done = subprocess.run(
        [sys.executable, "-c", LOAD], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["loaded", "amdsmi", "is", "not", "installed", "False"]
