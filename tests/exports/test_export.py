"""`accelprof export`: what other tools read back, of a finished and of a live run."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "comparison"))
import recorded
from running import accelprof, process, refused

from accelprof.storage.reader import open_run

SECOND = "20260113-101640-other-cd34"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("home")
    recorded.record(path, gpu=True)
    recorded.record(path, run_id=SECOND, name="other", steps=50)
    (path / "runs" / "20260111-101640-empty-cd34").mkdir()
    return path


def test_parquet_is_one_data_set_of_many_runs(home: Path, tmp_path: Path) -> None:
    lake = tmp_path / "it's a lake"
    for run, many in (("resnet", 1), ("other", 2)):
        done = process(home, "export", run, "--parquet", str(lake))
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert len(list((lake / "step").glob("run=*/node=node-17/data.parquet"))) == many
    source = f"{lake!s}/step/**/*.parquet".replace("'", "''")
    rows = duckdb.sql(f"SELECT run, node, count(*) FROM '{source}' GROUP BY ALL ORDER BY run")
    assert rows.fetchall() == [(recorded.RUN_ID, "node-17", 600), (SECOND, "node-17", 50)]
    assert not [p for p in lake.rglob("*") if p.is_file() and p.suffix != ".parquet"]


def test_parquet_holds_every_value(home: Path, tmp_path: Path) -> None:
    assert accelprof(home, "export", "resnet", "--parquet", str(tmp_path)).returncode == 0
    with open_run(home / "runs" / recorded.RUN_ID) as reader:
        for table in ("run", "step", "device_sample", "host_sample", "op", "meta"):
            file = next((tmp_path / table).rglob("data.parquet"))
            found = duckdb.sql(f"SELECT * FROM read_parquet('{file}', hive_partitioning = false)")
            assert sorted(map(str, found.fetchall())) == sorted(
                map(str, reader.rows(f"SELECT * FROM {table}"))
            )


def test_writing_again_replaces(home: Path, tmp_path: Path) -> None:
    for _ in range(2):
        assert accelprof(home, "export", "other", "--csv", str(tmp_path)).returncode == 0
    files = list((tmp_path / "step").rglob("*.csv"))
    assert len(files) == 1
    assert len(files[0].read_text().splitlines()) == 51


@pytest.fixture(scope="module")
def events(home: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    path = tmp_path_factory.mktemp("trace") / "trace.json.gz"
    done = accelprof(home, "export", "resnet", "--trace", str(path))
    assert done.returncode == 0 and "events to" in done.stderr
    with gzip.open(path, "rt") as file:
        body = json.load(file)
    assert body["otherData"]["run"] == recorded.RUN_ID
    assert "assumed" in body["otherData"]["note"]
    found: list[dict[str, Any]] = body["traceEvents"]
    return found


def test_trace_steps_hold_their_phases(events: list[dict[str, Any]]) -> None:
    spans = [e for e in events if e["ph"] == "X" and e["pid"] == recorded.recording.MAIN]
    steps = [e for e in spans if e["name"].startswith("step ")]
    assert len(steps) == 600
    for step in steps[:20]:
        end = step["ts"] + step["dur"]
        inside = [e for e in spans if e is not step and step["ts"] <= e["ts"] < end - 0.01]
        assert {"data_wait", "forward", "backward", "optimizer"} <= {e["name"] for e in inside}
        assert all(e["ts"] + e["dur"] <= end + 0.01 for e in inside)


def test_trace_has_telemetry_and_names(events: list[dict[str, Any]]) -> None:
    counters = {e["name"] for e in events if e["ph"] == "C"}
    assert {"device 0 busy (%)", "device 0 power (W)", "host CPU (%)", "CPU (cores)"} <= counters
    names = {e["args"]["name"] for e in events if e["ph"] == "M"}
    assert {"main", "worker 0", "worker 1", "machine"} <= names
    busy = [e["args"]["value"] for e in events if e["name"] == "device 0 busy (%)"]
    assert min(busy) > 20 and max(busy) < 50
    assert all(e["ts"] >= 0 for e in events if "ts" in e)


def test_tensorboard_reads_it(home: Path, tmp_path: Path) -> None:
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs the extra"
    )
    assert process(home, "export", "resnet", "--tensorboard", str(tmp_path)).returncode == 0
    found = accumulator.EventAccumulator(str(tmp_path)).Reload()
    tags = found.Tags()["scalars"]
    assert {"accelprof/step_ms/p50", "accelprof/share/input", "accelprof/use/device_0_busy"} <= set(
        tags
    )
    points = found.Scalars("accelprof/share/input")
    assert points[-1].step == 600
    assert all(0 <= point.value <= 1 for point in points)


def test_without_the_extra(home: Path, tmp_path: Path) -> None:
    """An interpreter in which TensorBoard cannot be imported, as where it is not installed."""
    code = (
        "import sys; sys.modules['tensorboard'] = None; "
        "from accelprof.profiler.commands import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "export", str(home / "runs" / recorded.RUN_ID),
         "--tensorboard", str(tmp_path / "tb")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "accelprof[tensorboard]" in refused(done)


def test_what_cannot_be_done_is_refused(home: Path, tmp_path: Path) -> None:
    refused(accelprof(home, "export"))
    (tmp_path / "file").touch()
    refused(accelprof(home, "export", "--parquet", str(tmp_path / "file")))
    refused(accelprof(home, "export", "--trace", str(tmp_path / "file" / "t.json")))
    refused(accelprof(home, "export", "nobody", "--csv", str(tmp_path)), 3)


def test_a_live_run(tmp_path: Path) -> None:
    with recorded.live(tmp_path):
        _export_and_report(tmp_path)


def _export_and_report(tmp_path: Path) -> None:
    words = ["--parquet", str(tmp_path / "lake"), "--trace", str(tmp_path / "t.json")]
    done = accelprof(tmp_path, "export", "last", *words)
    assert done.returncode == 0, done.stderr
    file = next((tmp_path / "lake" / "step").rglob("*.parquet"))
    assert duckdb.sql(f"SELECT count(*) FROM '{file}'").fetchall() == [(60,)]
    steps = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert sum(e["name"].startswith("step ") for e in steps) == 60
    assert accelprof(tmp_path, "report", "-o", str(tmp_path / "r.html")).returncode == 0
    assert "running for" in (tmp_path / "r.html").read_text()
