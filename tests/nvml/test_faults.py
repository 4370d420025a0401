"""Data quality: what drivers really answer now and then, and what becomes of it in the rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from stub_nvml.build import BEFORE_EVENT_REASONS, BEFORE_V2, BEFORE_V3
from stub_nvml.cards import GIB, Card, card, uuid
from stub_nvml.play import Played, Scenario, play_all

Play = Callable[[dict[str, Scenario]], dict[str, Played]]
NOT_AVAILABLE = 2**64 - 1


def one(play: Play, *cards: Card, **options: object) -> Played:
    return play({"one": Scenario(cards, **options)})["one"]  # type: ignore[arg-type]


IMPLAUSIBLE: dict[str, tuple[dict[str, object], str]] = {
    "16 MW": ({"power_mw": 16_000_000_000}, "power_w"),
    "power sentinel": ({"power_mw": 2**32 - 1}, "power_w"),
    "0 W while busy": ({"power_mw": 0}, "power_w"),
    "140 %": ({"gpu_util": 140}, "busy_share"),
    "memory controller at 101 %": ({"memory_util": 101}, "memory_busy_share"),
    "used sentinel": ({"memory_used": NOT_AVAILABLE, "memory_reserved": 0}, "memory_used_bytes"),
    "total sentinel": ({"memory_total": NOT_AVAILABLE}, "memory_total_bytes"),
    "more used than there is": ({"memory_used": 90 * GIB}, "memory_used_bytes"),
    "200 degrees": ({"temperature": 200}, "temperature_c"),
    "energy sentinel": ({"energy_mj": NOT_AVAILABLE}, "energy_j"),
    "energy jumps tenfold": ({"energy_mj": "0=1000000 5.4=10000000"}, "energy_j"),
    "energy goes back": ({"energy_mj": "0=1000000 5.4=1000"}, "energy_j"),
    "clock of 4 THz": ({"clock__1": 4_000_000}, "sm_clock_hz"),
    "link generation 0": ({"pcie_generation": 0}, "pcie_generation"),
    "link width 255": ({"pcie_width": 255}, "pcie_width"),
    "throttle sentinel": ({"throttle": NOT_AVAILABLE}, "throttle_bits"),
    "SM at 4000 %": ({"gpm__2": 4000.0}, "sm_share"),
    "tensor not a number": ({"gpm__5": "nan"}, "tensor_share"),
    "DRAM below 0": ({"gpm__10": -1.0}, "dram_share"),
}


def test_implausible_readings_are_missing_with_a_reason(play: Play) -> None:
    scenarios = {
        name: Scenario([card("h100", 0, **changes), card("h100", 1)], (5.0, 5.5))
        for name, (changes, _) in IMPLAUSIBLE.items()
    }
    for name, result in play(scenarios).items():
        column = IMPLAUSIBLE[name][1]
        # A jump of the energy counter costs the sample in which it happens.
        row = next(r for r in result.samples(0)[1:] if r["t_ns"] == 5_500_000_000)
        assert row[column] is None, name
        assert list(result.gaps(0)) == [column], (name, result.gaps(0))
        assert result.gaps(1) == {}, name
        others = {k for k, v in row.items() if v is None} - {column}
        assert others == set(), (name, others)


def test_energy_goes_on_after_a_jump_as_if_there_had_been_none(play: Play) -> None:
    jump = card("h100", energy_mj="0=1000000 5.4=10000000 6=10100000")
    rows = one(play, jump, times=(5.0, 5.5, 6.0, 6.5)).samples(0)
    assert [row["energy_j"] for row in rows] == [1000.0, None, 1100.0, 1100.0, 1100.0]


@pytest.mark.parametrize("code", [3, 13])
def test_energy_without_a_counter_is_the_integral_of_power(play: Play, code: int) -> None:
    made = card("t4", power_mw="0=30000 6=60000")
    made.rules.append(f"fail nvmlDeviceGetTotalEnergyConsumption {code}")
    result = one(play, made, times=(4.0, 5.0, 6.0, 7.0))
    assert result.samples(0)[0]["energy_j"] is None
    assert [row["energy_j"] for row in result.samples(0)[1:4]] == [30.0, 75.0, 135.0]
    assert result.gaps(0)["energy_j"].startswith("integrated from power samples")
    assert result.devices()[0][-1]["energy"] == "integrated"


def test_neither_energy_nor_power_is_not_zero(play: Play) -> None:
    bare = card("t4", power_mw=None, energy_mj=None)
    result = one(play, bare, card("t4", 1))
    assert {row["energy_j"] for row in result.samples(0)} == {None}
    assert {"power_w", "energy_j"} <= set(result.gaps(0))
    assert result.last(1)["power_w"] == 35.0
    assert result.last(1)["energy_j"] > 0


def test_power_is_not_carried_over_a_long_hole(play: Play) -> None:
    made = card("t4", energy_mj=None)
    rows = one(play, made, times=(4.0, 5.0, 60.0, 61.0)).samples(0)
    assert [row["energy_j"] for row in rows[:4]] == [None, 35.0, 35.0, 70.0]


def test_a_device_lost_in_the_run_is_one_gap_and_the_others_go_on(play: Play) -> None:
    lost = card("h100")
    lost.rules.append("fail nvml* 15 at 7")
    result = one(play, lost, card("t4", 1), times=(5.0, 6.0, 7.0, 8.0, 9.0))
    assert [row["busy_share"] for row in result.samples(0)] == [0.8, 0.8, None, None, None, None]
    last = result.last(0)
    assert set(last.values()) == {last["t_ns"], 0, None}
    assert list(result.gaps(0)) == ["*"] and "NVML 15" in result.gaps(0)["*"]
    assert [event["device"] for event in result.events("device-lost")] == [0]
    assert result.last(1)["busy_share"] == 0.8


def test_a_device_that_comes_back_is_sampled_again(play: Play) -> None:
    lost = card("a100-80")
    lost.rules.append("fail nvmlDevice* 15 at 6 until 7")
    result = one(play, lost, card("t4", 1), times=(5.0, 6.0, 7.0))
    assert [row["power_w"] for row in result.samples(0)] == [200.0, None, 200.0, 200.0]
    assert [row["power_limit_w"] for row in result.samples(0)] == [400.0, None, None, 400.0]
    assert len(result.events("device-back")) == 1


def test_old_drivers_answer_through_older_functions(
    build_without: Callable[[Iterable[str]], Path], tmp_path: Path
) -> None:
    made = card("a100-80", gpu_util="0=80 6=50")
    made.processes.append(f"4711 {GIB}")
    for number, hidden in enumerate((BEFORE_V3, BEFORE_V2, BEFORE_EVENT_REASONS)):
        library = build_without(hidden)
        scenarios = {"one": Scenario([made])}
        result = play_all(library, tmp_path / str(number), scenarios)["one"]
        row = result.last(0)
        # Version 1 counts the driver's reserved memory as used, version 2 does not.
        reserved = 0 if hidden is BEFORE_EVENT_REASONS else 512 * 2**20
        assert row["memory_used_bytes"] == 20 * GIB + reserved
        assert (row["busy_share"], row["temperature_c"], row["throttle_bits"]) == (0.5, 55.0, 0)
        processes = result.events("device-processes")[0]["processes"]
        assert [(p["pid"], p["memory_bytes"]) for p in processes] == [(4711, GIB)]
        assert set(result.gaps(0)) == {"sm_share", "tensor_share", "dram_share", "occupancy_share"}


def mig_card() -> Card:
    parent = card("h100", mig_mode=1, gpu_util=None, memory_util=None)
    parent.rules += ["fail nvmlDeviceGetMemoryInfo* 4"]
    for number in (1, 2):
        texts = {"name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "uuid": uuid(number, "MIG")}
        values: dict[str, object] = {
            "memory_total": 10 * GIB,
            "memory_used": number * GIB,
            "gpu_instance": number + 6,
            "compute_instance": 0,
            "gpm_supported": 1,
            **{f"gpm.{id_}": 30.0 * number for id_ in (2, 3, 5, 10)},
        }
        parent.mig.append(Card(texts, values))
    return parent


def test_mig_utilisation_is_not_available_and_never_zero(play: Play) -> None:
    result = one(play, mig_card(), card("t4", 1))
    assert {row["busy_share"] for row in result.samples(0)} == {None}
    assert result.gaps(0)["busy_share"] == "n/a (MIG: NVML does not report it)"
    for device, number in ((2, 1), (3, 2)):
        row = result.last(device)
        assert row["busy_share"] is None
        assert result.gaps(device)["busy_share"] == "n/a (MIG: NVML does not report it)"
        # Read from the instance although the card itself does not let us.
        assert row["memory_used_bytes"] == number * GIB
        assert row["memory_total_bytes"] == 10 * GIB
        assert row["sm_share"] == pytest.approx(0.3 * number)
        assert result.devices()[device][3] is None  # a slice has not the card's peaks
        assert result.devices()[device][-1]["mig_parent"] == 0
    assert result.last(0)["memory_used_bytes"] is None
    assert "no permission" in result.gaps(0)["memory_used_bytes"]
    assert result.last(0)["power_w"] == 350.0


def test_unified_memory_is_the_sum_of_the_processes(play: Play) -> None:
    made = card("unknown", memory_total=None)
    made.processes += [f"4711 {GIB}", f"4712 {2 * GIB}"]
    zero = card("unknown", 1, memory_total=0, memory_used=0, memory_reserved=0)
    result = one(play, made, zero)
    assert result.last(0)["memory_used_bytes"] == 3 * GIB
    assert result.gaps(0)["memory_used_bytes"].startswith("unified memory")
    assert result.last(0)["memory_total_bytes"] is None
    # 0 of 0 bytes is no reading either.
    assert result.last(1)["memory_used_bytes"] is None
    assert result.last(1)["power_w"] == 150.0


def test_a_utilisation_of_0_at_high_power_is_not_believed_on_wsl(
    play: Play, tmp_path: Path
) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/version").write_text("Linux version 5.15.90.1-microsoft-standard-WSL2")
    stuck = card("t4", gpu_util=0, memory_util=0, power_mw=65_000)
    idle = card("t4", 1, gpu_util=0, memory_util=0, power_mw=10_000)
    options = {"root": str(tmp_path)}
    result = play({"one": Scenario([stuck, idle], options=options)})["one"]
    assert result.last(0)["busy_share"] is None
    assert "WSL" in result.gaps(0)["busy_share"]
    assert result.last(1)["busy_share"] == 0.0


def test_xids_are_events(play: Play) -> None:
    made = card("h100", 1)
    made.xids += ["5.4 31", "6 79"]
    result = one(play, card("t4"), made, times=(5.0, 6.0, 7.0))
    told = [(event["device"], event["xid"]) for event in result.events("xid")]
    assert told == [(1, 31), (1, 79)]
    assert result.events("xid")[1]["meaning"] == "the GPU fell off the bus"


def test_a_clock_that_is_set_back_stops_nothing(play: Play) -> None:
    made = card(
        "a100-80",
        gpu_util="0=10 50=80",
        energy_mj="ramp 0=0 1000=1000000",
        temperature="0=40 90=50",
    )
    result = one(play, made, times=(100.0, 101.0, 51.0, 52.0, 53.0))
    rows = result.samples(0)
    assert [row["busy_share"] for row in rows] == [0.8] * 6
    assert [row["temperature_c"] for row in rows] == [50, 50, 40, 40, 40, 40]
    assert rows[-1]["energy_j"] - rows[-3]["energy_j"] == 1.0
    assert list(result.gaps(0))[4:] == ["energy_j"]  # the script's counter went back, too


def test_counters_are_events(play: Play) -> None:
    made = card("h100", violation__1=5_000_000_000, ecc_corrected=3, field__138=2048)
    made.rules.append("fail field.139 4")
    result = one(play, made, times=(5.0, 10.0, 16.0))
    first, second = result.events("device-counters")
    assert first["violation_thermal_ns"] == 5_000_000_000
    assert (first["ecc_corrected"], first["memory_temperature_c"]) == (3, 60)
    assert first["nvlink_tx_kib"] == 2048 and "nvlink_rx_kib" not in first
    assert second["fp32_share"] == pytest.approx(0.12)
    assert second["nvlink_tx_bytes_per_s"] == 200 * 2**20


def test_throttle_bits_follow_the_script(play: Play) -> None:
    made = card("t4", throttle="0=0 5.5=0x44 6=4")
    rows = one(play, made, times=(5.0, 5.5, 6.0)).samples(0)
    assert [row["throttle_bits"] for row in rows] == [0, 0x44, 4, 4]


def test_an_error_that_flickers_is_not_told_at_each_sample(play: Play) -> None:
    made = card("t4", power_mw=" ".join(f"{i}={35000 if i % 2 else 9**12}" for i in range(30)))
    result = one(play, made, times=[float(t) for t in range(1, 30)])
    gaps = [row for row in result.table("gap") if row[2] == "power_w"]
    assert 1 <= len(gaps) <= 3
    watts = [row["power_w"] for row in result.samples(0)]
    assert watts[:4] == [35.0, None, 35.0, None]


def test_processes_are_told_when_they_change(play: Play) -> None:
    made = card("t4")
    mine = os.getpid()
    made.processes += [f"{mine} {GIB}", f"1 {2 * GIB} 6.5 8"]
    made.processes.append(f"4999 {NOT_AVAILABLE}")
    # A /proc of our own: the initial PID namespace, in which PID 1 is older than the profiler.
    result = one(play, made, times=(5.0, 6.0, 7.0, 8.0, 9.0), options={"tree": [mine]})
    events = result.events("device-processes")
    assert [len(event["processes"]) for event in events] == [2, 3, 2]
    assert {p["pid"]: p["memory_bytes"] for p in events[0]["processes"]} == {mine: GIB, 4999: None}


def test_a_card_that_is_not_what_its_name_says(play: Play) -> None:
    cards = [
        card("a100-40", 0, memory_total=20 * GIB),
        card("h100", 1, pcie_max_generation=4, power_limit_mw=350_000),
        card("unknown", 2),
        card("g4", 3),
    ]
    facts = [d[-1].get("facts", []) for d in one(play, *cards).devices().values()]
    assert "20 GiB of memory" in facts[0][0]
    assert "its slot gives 4" in facts[1][0] and "350 W" in facts[1][1]
    assert "not in the catalogue" in facts[2][0]
    assert facts[3] == []


def test_a_job_that_sets_its_own_cuda_visible_devices(play: Play, tmp_path: Path) -> None:
    environs = {7: "A=1\0CUDA_VISIBLE_DEVICES=0", 8: "CUDA_VISIBLE_DEVICES=1,0", 9: "B=2", 10: None}
    for pid, text in environs.items():
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        if text is not None:
            (tmp_path / f"proc/{pid}/environ").write_text(text + "\0")
    options = {"root": str(tmp_path), "tree": list(environs)}
    environment = {"CUDA_VISIBLE_DEVICES": "0"}
    made = Scenario([card("t4"), card("t4", 1)], environment=environment, options=options)
    events = play({"one": made})["one"].events("cuda-visible")
    told = {event["pid"]: (event["value"], event["devices"]) for event in events}
    assert told == {8: ("1,0", [1, 0]), 9: (None, [0, 1])}


def test_devices_are_mapped_to_cuda_by_uuid(play: Play) -> None:
    cards = [card("t4", 0), card("h100", 1), card("t4", 2)]
    environment = {"CUDA_VISIBLE_DEVICES": f"{uuid(3)[:12]},{uuid(2)}"}
    result = play({"one": Scenario(cards, environment=environment)})["one"]
    ordinals = [d[-1].get("cuda_ordinal") for d in result.devices().values()]
    assert ordinals == [None, 1, 0]
