"""Each error x each metric x each device: a failure costs its own column on its own device."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from stub_nvml.cards import Card, card
from stub_nvml.play import COLUMNS, Played, Scenario, play_all

# Every error of nvml.h, and one that no header knows.
CODES = (*range(1, 31), 999, 4711)
TRY_OLDER = {3, 13, 25, 26}
CARDS = ("h100", "t4", "a100-80")
# Function patterns, with every older form of the call, and the columns that they fill.
FIELDS: dict[str, tuple[str, ...]] = {
    "nvmlDeviceGetMemoryInfo*": ("memory_used_bytes", "memory_total_bytes"),
    "nvmlDeviceGetUtilizationRates": ("busy_share", "memory_busy_share"),
    "nvmlDeviceGetPowerUsage": ("power_w",),
    "nvmlDeviceGet*PowerLimit": ("power_limit_w",),
    "nvmlDeviceGetPowerManagementLimit": (),  # only the older form: the newer one answers
    "nvmlDeviceGetTotalEnergyConsumption": ("energy_j",),
    "nvmlDeviceGetClockInfo": ("sm_clock_hz", "memory_clock_hz"),
    "nvmlDeviceGetCurrentClocks*": ("throttle_bits",),
    "nvmlDeviceGetTemperature*": ("temperature_c",),
    "nvmlDeviceGetCurrPcieLinkGeneration": ("pcie_generation",),
    "nvmlDeviceGetCurrPcieLinkWidth": ("pcie_width",),
    "nvmlDeviceGetPcieThroughput": ("pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s"),
    "nvmlDeviceGetComputeRunningProcesses*": (),
    "nvmlDeviceGetViolationStatus": (),
    "nvmlEvent*": (),
    "nvmlDeviceGetName": (),
    "nvmlDeviceGetUUID": (),
    "nvmlDeviceGetPciInfo_v3": (),
    "nvmlDeviceGetCudaComputeCapability": (),
    "nvmlDeviceGetMigMode": (),
}
GPM_COLUMNS = ("sm_share", "tensor_share", "dram_share", "occupancy_share")
GPM: dict[str, tuple[str, ...]] = {  # of the H100 alone
    "nvmlGpmSampleGet": GPM_COLUMNS,
    "nvmlGpmMetricsGet": GPM_COLUMNS,
    "nvmlGpmQueryDeviceSupport": GPM_COLUMNS,
    "gpm.2": ("sm_share",),
    "gpm.3": ("occupancy_share",),
    "gpm.5": ("tensor_share",),
    "gpm.10": ("dram_share",),
    "gpm.20": (),  # PCIe: the blocking call takes over
    "gpm.60": (),  # NVLink: only in events
}
TIMES = (5.0, 5.5, 6.0)
Cell = tuple[str, int, int]  # pattern, device, code


def cells() -> list[Cell]:
    plain = [(p, d, c) for p in FIELDS for d in range(len(CARDS)) for c in CODES]
    return plain + [(p, 0, c) for p in GPM for c in CODES]


def cards(pattern: str = "", device: int = -1, code: int = 0) -> list[Card]:
    made = [card(kind, number) for number, kind in enumerate(CARDS)]
    if pattern:
        limit = pattern == "nvmlDeviceGet*PowerLimit"
        patterns = [pattern, "nvmlDeviceGetPowerManagementLimit"] if limit else [pattern]
        made[device].rules += [f"fail {one} {code}" for one in patterns]
    return made


@pytest.fixture(scope="module")
def played(
    stub_library: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str | Cell, Played]:
    scenarios = {
        str(cell): Scenario(cards(*cell), TIMES if cell[0] in GPM else TIMES[:2])
        for cell in cells()
    }
    scenarios["healthy"] = Scenario(cards())
    # Two children: each cell mostly waits, for threads and for the file system.
    names = list(scenarios)
    halves = [{name: scenarios[name] for name in names[start::2]} for start in (0, 1)]
    folders = [tmp_path_factory.mktemp("matrix") for _ in halves]
    with ThreadPoolExecutor() as pool:
        parts = list(pool.map(play_all, (stub_library, stub_library), folders, halves))
    result = {name: played for part in parts for name, played in part.items()}
    return {"healthy": result["healthy"], **{cell: result[str(cell)] for cell in cells()}}


def test_the_healthy_cards_give_every_column(played: dict[str | Cell, Played]) -> None:
    healthy = played["healthy"]
    assert [name for name in COLUMNS if healthy.last(0)[name] is None] == []
    assert healthy.gaps(0) == {}
    for device in (1, 2):
        missing = {name for name in COLUMNS if healthy.last(device)[name] is None}
        assert missing == set(GPM_COLUMNS) == set(healthy.gaps(device))


@pytest.mark.parametrize("pattern", [*FIELDS, *GPM])
def test_a_failure_costs_its_own_column_alone(
    played: dict[str | Cell, Played], pattern: str
) -> None:
    healthy = played["healthy"]
    for cell in cells():
        if cell[0] != pattern:
            continue
        hit = {**FIELDS, **GPM}[pattern]
        _, failing, code = cell
        result = played[cell]
        if pattern == "nvmlDeviceGetPcieThroughput" and failing == 0:
            hit = ()  # GPM gives it there
        for device in range(len(CARDS)):
            expected = set(hit) if device == failing else set()
            wrong = differences(healthy.last(device), result.last(device), expected, code)
            assert wrong == [], (cell, device)
            new = set(result.gaps(device)) - set(healthy.gaps(device))
            assert new == expected, (cell, device, result.gaps(device))
        if pattern != "nvmlGpmQueryDeviceSupport":
            for column in hit:
                assert f"NVML {code}" in result.gaps(failing)[column], cell


def differences(
    healthy: dict[str, object], row: dict[str, object], hit: set[str], code: int
) -> list[str]:
    """Columns that are other than they should be."""
    wrong = []
    for name in COLUMNS:
        if name in hit and name == "energy_j" and code in (TRY_OLDER | {4}):
            good = row[name] is not None  # integrated from power instead
        elif name in hit:
            good = row[name] is None
        elif name in ("t_ns", "energy_j"):  # of another moment
            good = row[name] is not None
        elif name.startswith("pcie_tx") or name.startswith("pcie_rx"):
            good = row[name] is not None  # from GPM or from the blocking call
        else:
            good = row[name] == healthy[name]
        if not good:
            wrong.append(f"{name}: {row[name]}")
    return wrong


def test_gpm_without_a_reading_yet_is_no_gap(played: dict[str | Cell, Played]) -> None:
    first = played["healthy"].samples(0)[0]
    assert [first[name] for name in GPM_COLUMNS] == [None] * 4
    assert played["healthy"].gaps(0) == {}


def test_any_error_of_init_is_one_failure(stub_library: Path, tmp_path: Path) -> None:
    scenarios = {str(code): Scenario(cards(), head=[f"init {code}"]) for code in CODES}
    for code, result in play_all(stub_library, tmp_path, scenarios).items():
        assert f"NVML {code}" in (result.failure or ""), code
        assert result.rows == []


def test_a_device_that_is_not_handed_out_leaves_the_others(
    stub_library: Path, tmp_path: Path
) -> None:
    scenarios = {}
    for code in CODES:
        made = cards()
        made[1].rules.append(f"fail nvmlDeviceGetHandleByIndex_v2 {code}")
        scenarios[str(code)] = Scenario(made)
    for code, result in play_all(stub_library, tmp_path, scenarios).items():
        assert result.failure is None
        assert list(result.gaps(1)) == ["*"] and f"NVML {code}" in result.gaps(1)["*"]
        assert result.samples(1) == []
        assert result.last(0)["busy_share"] == result.last(2)["busy_share"] == 0.8
