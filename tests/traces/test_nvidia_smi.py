"""nvidia-smi logs: units, missing values, repeated headings, hostile input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelprof.profiler.traces.nvidia_smi import NotAnSmiLog, looks_like, read

QUERY = """timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W]
2026/03/01 10:00:00.500, 0, NVIDIA A100-SXM4-40GB, 45 %, 1024 MiB, 250.50 W
2026/03/01 10:00:00.500, 1, NVIDIA A100-SXM4-40GB, [N/A], 10 MiB, [Not Supported]
2026/03/01 10:00:01.500, 0, NVIDIA A100-SXM4-40GB, 0 %, 1024 MiB, 16000000 W
2026/03/01 10:00:02.5
"""
DMON = """# gpu    pwr  gtemp  mtemp     sm    mem   mclk   pclk
# Idx      W      C      C      %      %    MHz    MHz
    0     43     35      -     90     12   1215   1410
    1     44     36      -      -      0   1215   1410
# gpu    pwr  gtemp  mtemp     sm    mem   mclk   pclk
# Idx      W      C      C      %      %    MHz    MHz
    0     45     35      -     80     10   1215   1410
    1     45
"""


def test_a_query_log_keeps_units_and_never_makes_a_missing_value_zero() -> None:
    assert looks_like(QUERY)
    log = read(QUERY.splitlines(), start_ns=0)
    first, second, third = log.samples
    assert first == {
        "t_ns": 1772359200_500_000_000, "device": 0, "busy_share": 0.45,
        "memory_used_bytes": 1024 * 2**20, "power_w": 250.5,
    }  # fmt: skip
    assert second["busy_share"] is None and second["power_w"] is None
    assert third["busy_share"] == 0.0 and third["power_w"] is None  # 16 MW is no reading
    assert log.names == {0: "NVIDIA A100-SXM4-40GB", 1: "NVIDIA A100-SXM4-40GB"}
    assert log.skipped == 1  # the truncated last line


def test_a_dmon_log_with_repeated_headings_and_no_time() -> None:
    assert looks_like(DMON)
    log = read(DMON.splitlines(), start_ns=5_000_000_000)
    assert [(s["t_ns"], s["device"], s["busy_share"]) for s in log.samples] == [
        (5_000_000_000, 0, 0.9), (5_000_000_000, 1, None), (6_000_000_000, 0, 0.8),
    ]  # fmt: skip
    assert log.skipped == 1
    assert any("no times" in note for note in log.notes)


def test_dmon_with_date_and_time() -> None:
    text = "#YYYYMMDD HH:MM:SS gpu pwr sm\n#YYYYMMDD HH:MM:SS Idx W %\n20260301 10:00:00 0 43 5\n"
    (sample,) = read(text.splitlines(), start_ns=0).samples
    assert sample["t_ns"] == 1772359200_000_000_000 and sample["busy_share"] == 0.05


def test_a_log_without_a_header_is_refused_with_the_reason() -> None:
    with pytest.raises(NotAnSmiLog, match="noheader"):
        read(["2026/03/01 10:00:00.500, 45 %"], start_ns=0)


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    for head in ("", QUERY.splitlines()[0] + "\n", "# gpu pwr sm\n"):
        try:
            log = read((head + text).splitlines(), start_ns=0)
        except NotAnSmiLog:
            continue
        for row in log.samples:
            busy = row.get("busy_share")
            assert busy is None or 0 <= busy <= 1


def test_devices_are_told_apart_by_what_the_log_has() -> None:
    by_bus = "timestamp, pci.bus_id, utilization.gpu [%]\n" + "".join(
        f"2026/03/01 10:00:0{i}.0, 00000000:{bus}:00.0, {busy} %\n"
        for i in range(2) for bus, busy in (("17", 95), ("65", 5))
    )  # fmt: skip
    assert [s["device"] for s in read(by_bus.splitlines(), start_ns=0).samples] == [0, 1, 0, 1]
    none = "timestamp, utilization.gpu [%]\n2026/03/01 10:00:00, 5 %"
    assert "one device's" in read(none.splitlines(), start_ns=0).notes[0]


@pytest.mark.parametrize(
    ("heading", "line"),
    [
        ("#gpu, pwr, sm", "0, 43, 50"),
        ("#Date, Time, gpu, pwr, sm", "20260301, 10:00:00, 0, 43, 50"),
        ("#Time        gpu   pwr    sm", " 10:00:00     0    43    50"),
    ],
)
def test_dmon_as_csv_and_with_the_time_alone(heading: str, line: str) -> None:
    assert looks_like(heading)
    (sample,) = read([heading, line], start_ns=1772323200_000_000_000).samples
    assert sample["busy_share"] == 0.5
    expected = 1772359200 if "10:00" in line else 1772323200
    assert sample["t_ns"] == expected * 1_000_000_000


def test_a_dmon_log_without_dates_goes_on_past_midnight() -> None:
    log = read(["#Time gpu sm", "23:59:59 0 5", "00:00:00 0 5"], start_ns=1772323200_000_000_000)
    first, second = (int(s["t_ns"] or 0) for s in log.samples)
    assert second - first == 1_000_000_000 and "no dates" in log.notes[0]


def test_a_log_of_processes_is_refused_with_the_reason() -> None:
    with pytest.raises(NotAnSmiLog, match="dmon"):
        read(["# gpu  pid  type  sm", "    0  1234  C  95"], start_ns=0)


def test_times_of_another_form_are_told() -> None:
    lines = ["timestamp, utilization.gpu [%]", "2026-03-01T10:00:00, 5 %", "03/01/2026 1:00 PM, 5"]
    log = read(lines, start_ns=0)
    assert len(log.samples) == 1 and log.skipped == 1 and log.unread.startswith("03/01/2026")
