"""What diagnosis reads of a run's file."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from accelprof.profiler.diagnosis.sources import host
from accelprof.storage.reader import open_run
from accelprof.storage.writer import RunWriter


@pytest.mark.parametrize("older", [False, True])
def test_a_file_from_before_a_column_came_lacks_its_reading_alone(
    tmp_path: Path, older: bool
) -> None:
    path = tmp_path / "run.duckdb"
    writer = RunWriter(path)
    writer.append("host_sample", [{"t_ns": 5, "cpu_share": 0.5, "cpu_power_w": 40.0}])
    writer.close()
    if older:
        with duckdb.connect(str(path)) as file:
            file.execute("ALTER TABLE host_sample DROP COLUMN cpu_power_w")
    with open_run(path) as reader:
        found = host(reader, (0, 10))
    assert found.cpu_share == 0.5
    assert found.power_w == (None if older else 40.0)
