"""The dcgm-exporter's readings beside NVML's, from a real HTTP server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from exporter import A100, OTHER, USUAL, Exporter, page

from accelprof.profiler.collectors import Finished, NvidiaCards
from accelprof.profiler.collectors.dcgm import DcgmCollector
from accelprof.profiler.collectors.dcgm_fetch import full_url
from accelprof.profiler.collectors.nvml_card import Card
from accelprof.profiler.collectors.nvml_fields import COLUMNS

S = 10**9
T0 = 1_700_000_000 * S
PROFILING = {"sm_share", "tensor_share", "dram_share", "occupancy_share"}


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    server = Exporter(page({A100: USUAL}))
    yield server
    server.close()


def card(uuid: str = A100, capability: str = "8.0", device: int = 0) -> Card:
    """A card as NVML leaves it: everything is known but what needs GPM."""
    made = Card(None, device, None)
    made.uuid, made.name = uuid, "NVIDIA A100-SXM4-80GB"
    made.details["compute_capability"] = capability
    for column in COLUMNS:
        made.values[column] = None if column in PROFILING else 1
    return made


class Played:
    """A collector sampled every two seconds."""

    def __init__(self, cards: list[Card] | None, **options: Any) -> None:
        self.nvidia = NvidiaCards()
        if cards is not None:
            self.nvidia.tell(cards)
        self.collector = DcgmCollector(self.nvidia, **options)
        self.t_ns = T0
        self.rows: list[tuple[str, Any]] = []
        assert self.collector.probe() == []

    def sample(self, seconds: float = 2) -> list[dict[str, Any]]:
        new = self.collector.sample(self.t_ns)
        self.t_ns += int(seconds * S)
        self.rows += new
        names = ("t_ns", "device", *COLUMNS)
        return [dict(zip(names, row, strict=True)) for t, row in new if t == "device_sample"]

    def of(self, table: str) -> list[Any]:
        return [row for name, row in self.rows if name == table]

    def reason(self) -> str:
        ((_, source, _, _, reason),) = self.of("gap")
        assert source == "dcgm"
        return str(reason)


def test_rows_hold_what_nvml_lacks_under_its_number(exporter):
    played = Played([card(OTHER, device=0), card(A100, device=1)], url=exporter.url)
    (row,) = played.sample()
    assert row["device"] == 1
    given = {key: value for key, value in row.items() if value is not None}
    assert given == {
        "t_ns": T0, "device": 1, "sm_share": 0.82, "occupancy_share": 0.31,
        "tensor_share": 0.92926, "dram_share": 0.690789,
    }  # fmt: skip
    assert played.of("gap") == []
    assert played.of("device") == []


def test_with_gpm_there_is_nothing_to_add(exporter):
    full = card(capability="9.0")
    full.values = dict.fromkeys(COLUMNS, 1)
    played = Played([full], url=exporter.url)
    assert played.sample() == []
    assert played.rows == []


@pytest.mark.parametrize(
    "capability, helps", [("8.0", True), ("8.9", True), ("7.5", True), ("6.1", False)]
)
def test_without_an_exporter_one_gap_where_one_would_help(capability, helps):
    played = Played(None)
    assert played.sample() == []  # NVML is not open yet
    played.nvidia.tell([card(capability=capability), card(OTHER, capability, 1)])
    if helps:
        played.sample()
        assert "ACCELPROF_DCGM_URL" in played.reason()
    with pytest.raises(Finished):
        played.sample()
    assert len(played.rows) == helps


def test_without_nvidia_cards_it_is_silent():
    played = Played([])
    with pytest.raises(Finished):
        played.sample()
    assert played.rows == []


def test_old_names_and_labels(exporter):
    old = {
        "dcgm_sm_clock": 1410, "dcgm_gpu_utilization": 50, "dcgm_fb_used": 10, "dcgm_fb_free": 90,
        "dcgm_power_usage": 100.5, "dcgm_fi_prof_sm_active": 0.5,
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": 4,
    }  # fmt: skip
    exporter.text = page({A100: old}).replace("UUID=", "uuid=").replace("Hostname=", "hostname=")
    played = Played([], url=exporter.url)
    (row,) = played.sample()
    assert row["sm_clock_hz"] == 1_410_000_000
    assert (row["busy_share"], row["sm_share"]) == (0.5, 0.5)
    assert (row["memory_used_bytes"], row["memory_total_bytes"]) == (10 * 2**20, 100 * 2**20)
    assert (row["power_w"], row["throttle_bits"]) == (100.5, 4)
    (device,) = played.of("device")
    assert device["details"]["host"] == "node-1"


def test_without_nvml_the_exporters_cards_are_devices(exporter):
    exporter.text = page({A100: USUAL, OTHER: USUAL})
    played = Played([], url=exporter.url)
    rows = played.sample()
    devices = played.of("device")
    assert [row["device"] for row in rows] == [row["device"] for row in devices]
    assert len({row["device"] for row in devices}) == 2
    assert devices[0]["uuid"] == A100
    assert devices[0]["catalogue"] == "a100-sxm-80gb"
    assert rows[0]["energy_j"] == 9000.0
    assert rows[0]["pcie_rx_bytes_per_s"] == 97863601
    played.sample()
    assert len(played.of("device")) == 2


def test_instances_of_a_card(exporter):
    exporter.text = page({A100: USUAL}, GPU_I_PROFILE="3g.40gb", GPU_I_ID="2")
    whole = card()
    instance = Card(None, 1, None, whole)
    instance.details["gpu_instance"] = 2
    played = Played([whole, instance], url=exporter.url)
    (row,) = played.sample()
    assert (row["device"], row["tensor_share"]) == (1, 0.92926)
    assert played.of("gap") == []


@pytest.mark.parametrize(
    "value, word",
    [
        ("140737488355328.000000", "no reading"),
        (140737488355330.0, "not supported"),
        (140737488355331.0, "CAP_SYS_ADMIN"),
        (2147483634, "not supported"),
        (9223372036854775792, "no reading"),
        ("9.223372036854776e+18", "no reading"),
        ("NaN", "no reading"),
        (92.9, "implausible"),  # a percentage is not a ratio
        (-0.5, "implausible"),
    ],
)
def test_blank_and_impossible_values_are_missing(exporter, value, word):
    exporter.text = page({A100: USUAL | {"DCGM_FI_PROF_DRAM_ACTIVE": value}})
    played = Played([card()], url=exporter.url)
    for _ in range(2):
        (row,) = played.sample()
        assert row["dram_share"] is None
        assert row["sm_share"] == 0.82
    assert word in played.reason()
    assert played.of("gap")[0][2:4] == ("dram_share", 0)


def test_profiling_fields_that_are_not_served_are_named(exporter):
    fewer = {k: v for k, v in USUAL.items() if "SM_" not in k or "PROF" not in k}
    exporter.text = page({A100: fewer})
    played = Played([card()], url=exporter.url)
    played.sample()
    played.sample()
    assert [gap[2] for gap in played.of("gap")] == ["sm_share", "occupancy_share"]
    assert "add it to its counters file" in played.of("gap")[0][4]


def test_another_hosts_exporter_is_told(exporter):
    played = Played([card(OTHER)], url=exporter.url)
    assert played.sample() == played.sample() == []
    assert "other GPUs than this host has" in played.reason()


@pytest.mark.parametrize("trouble", ["refused", "hang", "drip", "status", "empty", "html"])
def test_an_exporter_in_trouble_is_one_gap_and_little_time(exporter, trouble):
    exporter.hang, exporter.drip = trouble == "hang", trouble == "drip"
    exporter.status = 503 if trouble == "status" else 200
    exporter.text = "<html>{}</html>" if trouble == "html" else ""
    url = "127.0.0.1:1" if trouble == "refused" else exporter.url
    played = Played([card()], url=url, timeout_s=0.3)
    began = time.monotonic()
    for _ in range(2):
        assert played.sample() == []
    assert time.monotonic() - began < 40
    assert "127.0.0.1" in played.reason()


def test_a_password_in_the_address_is_not_told():
    played = Played([card()], url="http://me:secret@127.0.0.1:1/metrics?token=secret")
    played.sample()
    assert "secret" not in played.reason()


def test_how_old_readings_may_be_is_an_event(exporter):
    played = Played([card()], url=exporter.url)
    for second in range(0, 70, 2):
        exporter.text = page({A100: USUAL | {"DCGM_FI_DEV_POWER_USAGE": 300 + second // 30}})
        played.sample()
    ((_, kind, _, _, data),) = played.of("event")
    assert kind == "dcgm-refresh"
    assert json.loads(data)["refresh_s"] == 30


def test_readings_that_never_change_are_not_believed(exporter):
    played = Played([card()], url=exporter.url)
    assert len(played.sample(100)) == 1
    assert len(played.sample(100)) == 1
    assert played.sample() == []
    assert "older than 120 s" in played.reason()


def test_the_age_that_the_page_tells_is_believed(exporter):
    exporter.text = page({A100: USUAL}, time=f" {(T0 - 10 * S) // 10**6}")
    played = Played([card()], url=exporter.url)
    assert len(played.sample(300)) == 1
    assert played.sample() == []
    assert "older than 120 s" in played.reason()


@pytest.mark.parametrize(
    "text, url",
    [
        ("node-7", "http://node-7:9400/metrics"),
        ("node-7:9401", "http://node-7:9401/metrics"),
        ("http://node-7:9400", "http://node-7:9400/metrics"),
        ("https://x.y/dcgm/metrics", "https://x.y/dcgm/metrics"),
    ],
)
def test_addresses_as_users_write_them(text, url):
    assert full_url(text) == url


@pytest.mark.parametrize("text", ["file:///etc/passwd", "ftp://node", "http://", "node:port"])
def test_other_addresses_are_refused(text):
    with pytest.raises(ValueError):
        full_url(text)
