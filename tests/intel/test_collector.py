"""The sensors of Intel's cards, and the gaps where there is nothing to read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from accelprof.profiler.collectors import Finished
from accelprof.profiler.collectors.intel import IntelCollector
from accelprof.profiler.collectors.nvml_fields import COLUMNS

S = 10**9
CARD = {  # an Arc A770 under i915
    "device/vendor": "0x8086",
    "device/device": "0x56a0",
    "device/hwmon/hwmon3/energy1_input": "1000000",
    "device/hwmon/hwmon3/power1_max": "190000000",
    "device/hwmon/hwmon3/temp1_input": "54000",
    "gt_act_freq_mhz": "2400",
}


def tree(root: Path, files: dict[str, str], number: int = 0) -> Path:
    folder = root / f"sys/class/drm/card{number}"
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content + "\n")
    return folder


@pytest.mark.parametrize(
    "files, system, word",
    [
        ({}, "Linux", "no Intel GPU"),
        ({"device/vendor": "0x8086", "device/device": "0x46a6"}, "Linux", "integrated"),
        ({}, "Darwin", "powermetrics"),
    ],
)
def test_nothing_to_read_is_one_gap(tmp_path, files, system, word):
    tree(tmp_path, files)
    collector = IntelCollector(root=tmp_path, system=system)
    ((metric, reason, device),) = collector.probe()
    assert (metric, device) == ("*", None)
    assert word in reason
    with pytest.raises(Finished):
        collector.sample(S)


def test_a_cards_sensors(tmp_path):
    folder = tree(tmp_path, CARD)
    collector = IntelCollector(root=tmp_path)
    assert [gap.metric for gap in collector.probe()] == ["busy_share, memory_used_bytes"]
    rows = collector.sample(S)
    (folder / "device/hwmon/hwmon3/energy1_input").write_text("151000000\n")
    rows += collector.sample(2 * S)
    (device,) = [row for table, row in rows if table == "device"]
    assert device["name"] == "Intel Arc A770"
    assert json.loads(device["details"])["facts"]
    first, second = [row for table, row in rows if table == "device_sample"]
    first, second = (dict(zip(COLUMNS, row[2:], strict=True)) for row in (first, second))
    assert (first["power_w"], second["power_w"]) == (None, 150.0)
    assert (second["energy_j"], second["power_limit_w"]) == (151.0, 190.0)
    assert (second["temperature_c"], second["sm_clock_hz"]) == (54.0, 2_400_000_000)
    assert second["busy_share"] is None
    assert [row for table, row in rows if table == "gap"] == []


@pytest.mark.parametrize(
    "file, columns",
    [
        ("device/hwmon/hwmon3/energy1_input", {"energy_j", "power_w"}),
        ("device/hwmon/hwmon3/temp1_input", {"temperature_c"}),
        ("gt_act_freq_mhz", {"sm_clock_hz"}),
    ],
)
def test_a_sensor_that_is_missing_costs_its_own_columns(tmp_path, file, columns):
    tree(tmp_path, {name: text for name, text in CARD.items() if name != file})
    collector = IntelCollector(root=tmp_path)
    collector.probe()
    rows = collector.sample(S) + collector.sample(2 * S)
    gaps = [row[2] for table, row in rows if table == "gap"]
    assert sorted(gaps) == sorted(columns)
    assert len([row for table, row in rows if table == "device_sample"]) == 2
