"""`accelprof report` and `accelprof runs` as processes: output, files, exit statuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tui"))
import recording

OLDER = "20260111-080000-resnet-zz99"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("home")
    recording.record(path / "runs" / recording.RUN_ID)
    recording.record(path / "runs" / OLDER, steps=0, state="running", run_id=OLDER)
    return path


def accelprof(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    return subprocess.run(
        [sys.executable, "-m", "accelprof", *words], capture_output=True, text=True, check=False,
        env=environment | {"ACCELPROF_HOME": str(home)}, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def refused(done: subprocess.CompletedProcess[str], status: int) -> str:
    """The one line of a command that was refused."""
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("accelprof: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_report_on_stdout(home: Path) -> None:
    done = accelprof(home, "report")
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.startswith("Input-bound, high confidence: ")
    assert "\x1b" not in done.stdout


def test_report_as_json(home: Path) -> None:
    for words in (["--json"], ["--format", "json"], ["resnet", "--json"]):
        body = json.loads(accelprof(home, "report", *words).stdout)
        assert body["schema"] == "accelprof.report/1"
        assert body["run"]["id"] == recording.RUN_ID


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("r.md", "**Input"),
        ("r.json", "{"),
        ("r.txt", "Input-"),
        ("R.MD", "**"),
        ("r.html", "<!DOCTYPE html>"),
    ],
)
def test_the_suffix_decides(home: Path, tmp_path: Path, name: str, begin: str) -> None:
    done = accelprof(home, "report", "last", "-o", str(tmp_path / name))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"accelprof: wrote {tmp_path / name}\n"
    assert (tmp_path / name).read_text().startswith(begin)


def test_the_format_outweighs_the_suffix(home: Path, tmp_path: Path) -> None:
    accelprof(home, "report", "--format", "md", "-o", str(tmp_path / "notes"))
    assert (tmp_path / "notes").read_text().startswith("**Input-bound")


def test_what_cannot_be_done_is_refused(home: Path, tmp_path: Path) -> None:
    assert "'pdf'" in refused(accelprof(home, "report", "--format", "pdf"), 2)
    assert "r.pdf" in refused(accelprof(home, "report", "-o", str(tmp_path / "r.pdf")), 2)
    refused(accelprof(home, "report", "-o", str(tmp_path / "r")), 2)
    refused(accelprof(home, "report", "--json", "--format", "md"), 2)
    refused(accelprof(home, "report", "-o", str(tmp_path / "none" / "r.md")), 2)
    refused(accelprof(home, "report", "-o", str(tmp_path) + ".d/x.md"), 2)


def test_runs_that_are_not_there(home: Path, tmp_path: Path) -> None:
    assert recording.RUN_ID in refused(accelprof(home, "report", "resnot"), 3)
    refused(accelprof(tmp_path, "report"), 3)
    (tmp_path / "bad.duckdb").write_text("no database")
    refused(accelprof(home, "report", str(tmp_path / "bad.duckdb")), 2)
    (tmp_path / "empty.duckdb").touch()
    assert accelprof(home, "report", str(tmp_path / "empty.duckdb")).returncode in (2, 3)


def test_a_run_whose_recorder_died_is_lost(home: Path) -> None:
    body = json.loads(accelprof(home, "report", OLDER, "--json").stdout)
    assert body["run"]["state"] == "lost"
    assert body["verdict"]["bottleneck"] == "inconclusive"


def test_runs(home: Path) -> None:
    done = accelprof(home, "runs")
    assert (done.returncode, done.stderr) == (0, "")
    head, newest, oldest = done.stdout.splitlines()
    assert head.split() == [
        "RUN",
        "STATE",
        "WHEN",
        "WALL",
        "STEPS",
        "SAMPLES/S",
        "VERDICT",
        "SURE",
        "TAGS",
    ]
    assert newest.startswith(recording.RUN_ID)
    assert "600" in newest
    assert oldest.split()[:2] == [OLDER, "lost"]
    assert "\x1b" not in done.stdout
    assert len(accelprof(home, "runs", "-n", "1").stdout.splitlines()) == 2


def test_runs_as_json(home: Path) -> None:
    body = json.loads(accelprof(home, "runs", "--json").stdout)
    assert body["schema"] == "accelprof.runs/1"
    first = body["runs"][0]
    assert list(first) == ["id", "name", "state", "started_at", "wall_s", "command", "tags",
                           "bottleneck", "confidence", "steps", "samples_per_s", "user", "host",
                           "note", "exit_status"]  # fmt: skip
    assert first["tags"] == {"team": "vision"}
    assert first["started_at"].startswith("2026-01-12T10:16:40")


def test_runs_leaves_out_what_it_cannot_read(tmp_path: Path) -> None:
    recording.record(tmp_path / "runs" / recording.RUN_ID)
    bad = tmp_path / "runs" / "20260113-080000-bad-aaaa"
    bad.mkdir()
    (bad / "run.duckdb").write_bytes(b"\x1b[31mnot a database" * 100)
    gone = tmp_path / "runs" / "20260113-080000-gone-aaaa"
    gone.mkdir()
    os.utime(gone, (1.7e9, 1.7e9))
    (tmp_path / "runs" / "20260113-080000-starts-aaaa").mkdir()  # just now: no fault
    done = accelprof(tmp_path, "runs", "--json")
    assert done.returncode == 0
    assert [run["id"] for run in json.loads(done.stdout)["runs"]] == [recording.RUN_ID]
    assert done.stderr.count("accelprof: left out: ") == 2
    assert "\x1b" not in done.stderr


def test_no_runs_yet(tmp_path: Path) -> None:
    done = accelprof(tmp_path, "runs")
    assert (done.returncode, done.stdout) == (0, "")
    assert "accelprof run COMMAND" in done.stderr
    assert json.loads(accelprof(tmp_path, "runs", "--json").stdout)["runs"] == []


@pytest.mark.parametrize("command", ["report", "runs", "top"])
def test_help_has_an_example(home: Path, command: str) -> None:
    done = accelprof(home, command, "--help")
    assert done.returncode == 0
    assert f"Example: accelprof {command}" in done.stdout
