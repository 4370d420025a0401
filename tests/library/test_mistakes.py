"""Words that no command can use, and names that are not UTF-8: one line each, and nothing half."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "comparison"))
import pairs
from running import accelprof, refused

EVENTS = [{"ph": "X", "name": "aten::mm", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 10 * n,
           "dur": 5} for n in range(30)]  # fmt: skip
ODD = os.fsdecode(b"odd\xff")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("home")
    pairs.record(path, "one", steps=30)
    return path


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("runs --since 999999w", "--since '999999w'"),
        ("fleet . --since 999999d", "--since '999999d'"),
        ("fleet . --engine clickhouse://[::1", "there are spark://"),
        ("fleet . --engine trino://h:99999/c/s", "there are spark://"),
        ("export last --otlp http://h:port", "write http://HOST:4318"),
        ("export last --otlp http://h:99999", "write http://HOST:4318"),
        ("export last --otlp http://[::1", "write http://HOST:4318"),
        (f"export last --otlp http://{ODD}", "write http://HOST:4318"),
        ("check last --max-step-ms inf", "finite"),
        (f"check last --max-memory {'9' * 400}GB", "larger than any"),
        (f"run --max-disk {'9' * 400} true", "larger than any"),
        (f"check last --forbid {ODD}", "no finding has this id"),
        ("compare last last --json --format md", "exclude each other"),
        ("prices energy 0.3 --date someday", "is not a date"),
        ("prices set h100 1 --count 99999999999", "count = 99999999999"),
        (f"serve-metrics --port 0 --address {ODD}", "cannot listen"),
        (f"sql last {ODD}", "the query is not UTF-8"),
    ],
)
def test_one_line(home: Path, line: str, said: str) -> None:
    assert said in refused(accelprof(home, *line.split()))


def test_a_tune_that_does_not_begin_leaves_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "new"))
    (tmp_path / "new").mkdir()
    for words in (("--budget", "soon"), ("--try", "num_workers=9999")):
        refused(accelprof(home, "tune", *words, "true"))
    assert not any((tmp_path / "new").iterdir())


def test_a_run_file_whose_path_no_database_takes(home: Path, tmp_path: Path) -> None:
    file = tmp_path / f"{ODD}.duckdb"
    shutil.copy(next((home / "runs").iterdir()) / "run.duckdb", file)
    assert "not UTF-8" in refused(accelprof(home, "report", str(file)))


def test_a_trace_of_an_odd_name_is_a_run(tmp_path: Path) -> None:
    trace = tmp_path / f"{ODD}.json"
    trace.write_text(json.dumps({"traceEvents": EVENTS}))
    done = accelprof(tmp_path, "import", str(trace), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["run"]["command"][-1].endswith("odd?.json")


def test_odd_tags_and_notes_are_kept(home: Path) -> None:
    assert accelprof(home, "runs", "tag", "last", f"key={ODD}").returncode == 0
    assert accelprof(home, "runs", "note", "last", ODD).returncode == 0
    (run,) = json.loads(accelprof(home, "runs", "--json").stdout)["runs"]
    assert (run["tags"]["key"], run["note"]) == ("odd?", "odd?")


def test_odd_sources_of_prices_can_be_read_again(tmp_path: Path) -> None:
    for source in (ODD, 'a"b\\c\nd\x01\x7f'):
        words = ("prices", "set", "h100", "1", "--source", source)
        assert accelprof(tmp_path, *words).returncode == 0
        offers = json.loads(accelprof(tmp_path, "prices", "--json", "--only", "h100").stdout)
        assert offers["offers"][0]["source"] == source.replace("\udcff", "?")
    assert [file.name for file in tmp_path.iterdir()] == ["prices.toml"]


def test_edits_at_once_are_all_kept(home: Path) -> None:
    words = [sys.executable, "-m", "accelprof", "runs", "tag", "last"]
    environ = os.environ | {"ACCELPROF_HOME": str(home)}
    edits = [subprocess.Popen([*words, f"n{n}=x"], env=environ, stderr=subprocess.DEVNULL)
             for n in range(3)]  # fmt: skip
    assert [edit.wait() for edit in edits] == [0, 0, 0]
    (run,) = json.loads(accelprof(home, "runs", "--json").stdout)["runs"]
    assert {"n0", "n1", "n2"} <= run["tags"].keys()


def test_prices_set_at_once_are_all_kept(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "accelprof", "prices", "set"]
    environ = os.environ | {"ACCELPROF_HOME": str(tmp_path)}
    edits = [subprocess.Popen([*words, name, "1"], env=environ, stdout=subprocess.DEVNULL)
             for name in ("h100", "l4", "t4")]  # fmt: skip
    assert [edit.wait() for edit in edits] == [0, 0, 0]
    assert (tmp_path / "prices.toml").read_text().count("[[offer]]") == 3
