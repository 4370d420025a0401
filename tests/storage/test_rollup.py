"""Long recordings: old samples get coarser, keep what they say, and the file stays bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accelprof.storage.reader import open_run
from accelprof.storage.rollup import SECOND_NS
from accelprof.storage.writer import RunWriter

NOW = 1_790_000_000 * SECOND_NS
HOUR = 3600 * SECOND_NS


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with open_run(path) as reader:
        return reader.rows(sql)


def device(t_ns: int, busy: float | None, held: int, bits: int = 0) -> dict[str, Any]:
    return {
        "t_ns": t_ns, "device": 0, "busy_share": busy, "memory_used_bytes": held,
        "throttle_bits": bits,
    }  # fmt: skip


def test_means_of_rates_and_the_most_of_what_is_held(tmp_path: Path) -> None:
    path = tmp_path / "run.duckdb"
    writer = RunWriter(path)
    old, older = NOW - 2 * HOUR, NOW - 8 * HOUR
    for at in range(20):  # two seconds at 10 Hz
        bits = 4 if at == 3 else 8 * (at == 5)
        writer.append("device_sample", [device(old + at * SECOND_NS // 10, at % 2, at, bits)])
    writer.append("device_sample", [device(older + at * SECOND_NS, None, 7) for at in range(20)])
    writer.append("device_sample", [device(NOW - HOUR // 2 + at, 0.5, 1) for at in range(5)])
    writer.append("process_sample", [
        {"t_ns": old + at, "pid": pid, "cpu_cores": at, "state": "running"}
        for at in (0, 1) for pid in (1, 2)
    ])  # fmt: skip
    writer.append("host_sample", [{"t_ns": old + at, "cpu_core_share": [at]} for at in (0, 1)])
    writer.flush()
    for _ in range(2):  # the second time finds nothing to do
        writer.roll_up(NOW)
    writer.close()
    sql = "SELECT t_ns, busy_share, memory_used_bytes, throttle_bits FROM device_sample ORDER BY 1"
    found = rows(path, sql)
    assert found[:2] == [(older, None, 7, 0), (older + 10 * SECOND_NS, None, 7, 0)]
    assert found[2:4] == [(old, 0.5, 9, 12), (old + SECOND_NS, 0.5, 19, 0)]
    assert len(found) == 4 + 5
    sql = "SELECT t_ns, pid, cpu_cores, state FROM process_sample ORDER BY pid"
    assert rows(path, sql) == [(old, 1, 0.5, "running"), (old, 2, 0.5, "running")]
    assert rows(path, "SELECT cpu_core_share FROM host_sample") == [([1.0],)]


def test_a_clock_that_was_set_back(tmp_path: Path) -> None:
    path = tmp_path / "run.duckdb"
    writer = RunWriter(path)
    writer.roll_up(NOW)
    writer.roll_up(NOW - 4 * HOUR)
    early = NOW - 4 * HOUR
    writer.append("device_sample", [device(early + at, 1.0, 1) for at in range(10)])
    writer.flush()
    writer.roll_up(NOW - 2 * HOUR)
    writer.close()
    assert rows(path, "SELECT count(*) FROM device_sample") == [(1,)]


def test_the_oldest_go_when_the_file_is_full(tmp_path: Path) -> None:
    """A recorder that never ends: days of samples under a limit of 12 MiB."""
    path = tmp_path / "run.duckdb"
    limit = 12 << 20
    writer = RunWriter(path, max_bytes=limit)
    for chunk in range(30):
        start = NOW + chunk * HOUR // 2
        writer._connection.execute(  # what the appender stores, without its time
            "INSERT INTO device_sample (t_ns, device, busy_share, power_w, pcie_tx_bytes_per_s) "
            "SELECT ? + i * 100000000, 0, random(), random(), random() FROM range(18000) t(i)",
            [start],
        )
        writer.append("gap", [(start, "test", None, None, None)])
        writer.flush()
        writer.roll_up(start + HOUR // 2, forget=True)
    assert writer.size_bytes() < limit
    assert not writer.full and writer.trouble is None
    writer.close()
    ((first, last),) = rows(path, "SELECT min(t_ns), max(t_ns) FROM device_sample")
    assert last >= NOW + 14 * HOUR
    assert rows(path, f"SELECT count(*) FROM gap WHERE t_ns < {first - HOUR}") == [(0,)]
