"""`accelprof fleet`: the same questions to every engine, answered as Python answers them."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "exports"))
sys.path.insert(0, str(Path(__file__).parents[1] / "comparison"))
import lakes
import recorded
from running import accelprof, process, refused

from accelprof.profiler.fleet import answer, engines
from accelprof.profiler.fleet.queries import GROUPS, Queries
from accelprof.profiler.fleet.row import HOUR_MS, WAITS, row
from accelprof.storage.reader import open_run

pytest.importorskip("ibis", reason="needs the extra")
COUNT, MANY = 120, int(os.environ.get("RUNS", "10000"))
LIMIT_S = 10.0
QUESTIONS = [("kinds", None), ("weeks", None), ("fix_first", None), ("groups", None),
             *(("groups", by) for by in GROUPS)]  # fmt: skip


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("it's a lake")
    lakes.write(path, COUNT)
    return path


def test_totals_losses_and_weeks(lake: Path) -> None:
    done = accelprof(lake, "fleet", str(lake), "--by", "user", "--json")
    found, made = json.loads(done.stdout), lakes.rows(COUNT)
    assert list(found)[:4] == ["schema", "lake", "runs", "accelerator_hours"]
    assert (found["schema"], found["runs"]) == ("accelprof.fleet/1", COUNT)
    assert found["accelerator_hours"] == sum(one["device_ms"] for one in made) / HOUR_MS
    expected: dict[tuple[str, str], int] = defaultdict(int)
    for one in made:
        for name in WAITS:
            expected[one["user"] or "unknown", f"{name}-bound"] += one[f"lost_{name}_ms"]
    assert {
        (one["group"], one["bottleneck"]): one["accelerator_hours"] for one in found["lost"]
    } == {key: ms / HOUR_MS for key, ms in expected.items() if ms}
    assert [week["week"] for week in found["weeks"]] == ["2026-01-05", "2026-01-12"]
    assert [week["runs"] for week in found["weeks"]] == [101, 19]
    best = max(made, key=lambda one: (one["gain_usd_micros"] or 0, one["gain_ms"]))
    assert found["fix_first"][0]["gain_usd"] == best["gain_usd_micros"] / 1e6
    assert len(found["fix_first"]) == 10 and found["engine"].startswith("duckdb ")


def test_text(lake: Path) -> None:
    text = accelprof(lake, "fleet", str(lake), "--by", "tag").stdout
    for part in ("120 runs, ", "LOST BY TAG", "no tag", "team=vision", "MEND FIRST", "WEEK BY"):
        assert part in text
    assert max(map(len, text.splitlines())) <= 80


def test_since(lake: Path) -> None:
    def runs(since: str) -> int:
        done = accelprof(lake, "fleet", str(lake), "--since", since, "--json")
        found: int = json.loads(done.stdout)["runs"]
        return found

    assert runs("2026-01-12T00:00Z") == 19
    assert runs("2036-01-01") == 0
    assert "0 runs" in accelprof(lake, "fleet", str(lake), "--since", "2036-01-01").stdout


def rows(engine: engines.Engine) -> dict[Any, list[tuple[Any, ...]]]:
    """The answers to all questions."""
    queries = Queries(engine.dialect)
    try:
        return {question: engine.rows(queries.sql(*question)) for question in QUESTIONS}
    finally:
        engine.close()


def ordered(found: dict[Any, list[tuple[Any, ...]]]) -> dict[Any, list[tuple[Any, ...]]]:
    """Rows in the order that the query asked for."""
    assert all(found.values())
    return found


def test_chdb_answers_row_for_row(lake: Path) -> None:
    pytest.importorskip("chdb", reason="no chdb here")
    assert ordered(rows(engines.ChDB("", str(lake)))) == rows(engines.DuckDB("", str(lake)))


def test_every_dialect_parses_its_own_sql() -> None:
    sqlglot = pytest.importorskip("sqlglot")
    for dialect, name in (("duckdb", "duckdb"), ("pyspark", "spark"), ("trino", "trino"),
                          ("clickhouse", "clickhouse")):  # fmt: skip
        queries = Queries(dialect, since_s=lakes.MONDAY_S)
        for question in QUESTIONS:
            sql = queries.sql(*question)
            found = sqlglot.parse_one(sql, dialect=name)
            assert {table.name for table in found.find_all(sqlglot.exp.Table)} >= {"summary"}
            assert "uniq(" not in sql  # ClickHouse's count of distinct values is an estimate


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_ten_thousand_runs_and_spark_answers_row_for_row(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="no pyspark here")
    if shutil.which("java") is None:
        pytest.skip("no java here")
    lakes.write(tmp_path, MANY)
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    engine = engines.DuckDB("", str(tmp_path))
    print(f"DuckDB read: {time.process_time() - began_cpu_s:.1f} s of CPU")
    found = answer.ask(engine, str(tmp_path), by="tag")
    print(f"DuckDB: {time.perf_counter() - began_s:.1f} s, "
          f"{time.process_time() - began_cpu_s:.1f} s of CPU")  # fmt: skip
    assert found.runs == MANY
    # Beside other load the wall's time says nothing; on more than one core the CPU's is longer.
    assert min(time.perf_counter() - began_s, time.process_time() - began_cpu_s) < LIMIT_S
    assert ordered(rows(engines.Spark("spark://local", str(tmp_path)))) == rows(engine)


# -- from a run to the lake ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("home")
    recorded.record(path, gpu=True)
    return path


def test_an_exported_run_is_in_the_lake(home: Path, tmp_path: Path) -> None:
    for _ in range(2):  # again replaces
        assert process(home, "export", "--parquet", str(tmp_path)).returncode == 0
    found = json.loads(accelprof(home, "fleet", str(tmp_path), "--json").stdout)
    assert found["runs"] == 1
    report = json.loads(accelprof(home, "report", "--json").stdout)
    assert found["accelerator_hours"] == pytest.approx(report["run"]["wall_s"] / 3600, rel=1e-4)
    lost = {one["bottleneck"]: one for one in found["lost"]}
    assert lost["input-bound"]["share"] == pytest.approx(report["time"]["shares"]["input"], 1e-4)
    first = found["fix_first"][0]
    assert first["run"] == recorded.RUN_ID and first["user"] == "ada"
    assert 0 < first["gain_accelerator_hours"] < found["accelerator_hours"]


def test_an_inconclusive_run_has_lost_nothing_that_is_known(tmp_path: Path) -> None:
    from accelprof.profiler.diagnosis import diagnose

    recorded.record(tmp_path, steps=5)
    with open_run(tmp_path / "runs" / recorded.RUN_ID) as reader:
        found = row(diagnose(reader), None)
    assert found["bottleneck"] == "inconclusive" and found["device_ms"] > 0
    assert found["judged_ms"] == found["gain_ms"] == found["lost_input_ms"] == 0
    assert found["usd_micros"] is None and found["gain_usd_micros"] is None


def test_an_object_store(home: Path, tmp_path: Path) -> None:
    """Through fsspec; `local://` is its own view of the disk, as s3:// would be of a bucket."""
    pytest.importorskip("fsspec", reason="needs the extra")
    lake = f"local://{tmp_path}/bucket/lake"
    done = accelprof(home, "export", "--parquet", lake)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "bucket/lake/step").glob("run=*/node=*/data.parquet"))) == 1
    assert json.loads(accelprof(home, "fleet", lake, "--json").stdout)["runs"] == 1


def test_what_cannot_be_done_is_refused(home: Path, lake: Path, tmp_path: Path) -> None:
    refused(accelprof(home, "fleet", str(tmp_path)), 3)
    refused(accelprof(home, "fleet", str(lake), "--by", "colour"))
    refused(accelprof(home, "fleet", str(lake), "--since", "once"))
    assert "clickhouse://" in refused(accelprof(home, "fleet", str(lake), "--engine", "db2://x"))
    refused(accelprof(home, "fleet", str(lake), "--engine", "clickhouse://127.0.0.1:9"))
    assert "nosuch" in refused(accelprof(home, "fleet", "nosuch://bucket/lake"))
    (tmp_path / "summary").mkdir()
    (tmp_path / "summary" / "bad.parquet").write_bytes(b"PAR1 no")
    refused(accelprof(home, "fleet", str(tmp_path)))
