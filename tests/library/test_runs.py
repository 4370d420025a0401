"""`accelprof runs` as a library: filters, tags, notes, deletion, and what is refused."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pexpect
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "exports"))
sys.path.insert(0, str(Path(__file__).parents[1] / "comparison"))
import recorded
from running import accelprof, refused

from accelprof.profiler.commands.runs import table
from accelprof.profiler.moments import moment
from accelprof.profiler.reports.paint import Paint
from accelprof.profiler.runs import Row
from accelprof.storage.writer import RunWriter

# id, name, user, bottleneck, tags
RUNS = (
    ("20260301-080000-resnet-aa11", "resnet", "ada", "input-bound", {"team": "vision"}),
    ("20260302-080000-resnet50-bb22", "resnet50", "ada", "memory-bound", {}),
    ("20260401-080000-gpt-cc33", "gpt", "grace", "input-bound", {"team": "text", "lr": "3"}),
)


def record(home: Path, run: tuple[str, str, str, str, dict[str, str]]) -> None:
    run_id, name, user, bottleneck, tags = run
    folder = home / "runs" / run_id
    folder.mkdir(parents=True)
    started = datetime.strptime(run_id[:15] + "+0000", "%Y%m%d-%H%M%S%z")
    writer = RunWriter(folder / "run.duckdb")
    writer.update_run(
        id=run_id, name=name, user=user, host="node-1", tags=tags, state="finished",
        command=["python", f"{name}.py"], started_ns=int(started.timestamp() * 1e9),
        ended_ns=int(started.timestamp() * 1e9) + 60_000_000_000,
    )  # fmt: skip
    writer.set_meta("summary", json.dumps({"bottleneck": bottleneck, "confidence": "high"}))
    writer.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for run in RUNS:
        record(tmp_path, run)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([], "gpt resnet50 resnet"),
        (["--verdict", "input"], "gpt resnet"),
        (["--verdict", "memory-bound"], "resnet50"),
        (["--user", "grace"], "gpt"),
        (["--name", "resnet*"], "resnet50 resnet"),
        (["--name", "resnet"], "resnet"),
        (["--tag", "team"], "gpt resnet"),
        (["--tag", "team=text", "--tag", "lr"], "gpt"),
        (["--tag", "team=text", "--tag", "lr=4"], ""),
        (["--since", "2026-03-02T00:00Z"], "gpt resnet50"),
        (["--since", "2026-03-02T00:00Z", "--until", "2026-03-03"], "resnet50"),
        (["--since", "1h"], ""),
        (["--verdict", "input", "-n", "1"], "gpt"),
    ],
)
def test_filters(home: Path, words: list[str], found: str) -> None:
    body = json.loads(accelprof(home, "runs", "--json", *words).stdout)
    assert body["schema"] == "accelprof.runs/1"
    assert [run["name"] for run in body["runs"]] == found.split()


def test_tags_and_notes_stay_with_the_run(home: Path) -> None:
    done = accelprof(home, "runs", "tag", "gpt", "resnet", "keep=a=b", "--remove", "team")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        "accelprof: 20260401-080000-gpt-cc33: keep=a=b lr=3",
        "accelprof: 20260301-080000-resnet-aa11: keep=a=b",
    ]
    assert accelprof(home, "runs", "note", "gpt", " before the \x1b[31mloader ").returncode == 0
    body = json.loads(accelprof(home, "runs", "--tag", "keep=a=b", "--json").stdout)["runs"]
    assert [run["tags"] for run in body] == [{"lr": "3", "keep": "a=b"}, {"keep": "a=b"}]
    assert [run["note"] for run in body] == ["before the \x1b[31mloader", None]
    listed = accelprof(home, "runs").stdout
    assert "keep=a=b lr=3" in listed and "\x1b" not in listed
    assert accelprof(home, "runs", "note", "gpt", "").stderr.endswith("no note\n")
    body = json.loads(accelprof(home, "runs", "--name", "gpt", "--json").stdout)["runs"]
    assert body[0]["note"] is None


def test_rm(home: Path) -> None:
    assert "--yes" in refused(accelprof(home, "runs", "rm", "gpt"))
    done = accelprof(home, "runs", "rm", "gpt", "resnet", "gpt", "--yes")
    assert done.returncode == 0 and done.stderr.count("deleted") == 2
    assert [path.name for path in (home / "runs").iterdir()] == [RUNS[1][0]]


@pytest.mark.parametrize(("answer", "status", "left"), [("y", 0, 2), ("n", 130, 3)])
def test_rm_asks(home: Path, answer: str, status: int, left: int) -> None:
    words = ["-m", "accelprof", "runs", "rm", "gpt"]
    child = pexpect.spawn(sys.executable, words, env={"ACCELPROF_HOME": str(home)}, timeout=60)
    child.expect("20260401-080000-gpt-cc33 .*B")
    child.expect("Delete 1 run")
    child.sendline(answer)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == status
    assert len(list((home / "runs").iterdir())) == left


def test_a_run_that_is_damaged_can_be_deleted(home: Path) -> None:
    (home / "runs" / RUNS[0][0] / "run.duckdb").write_bytes(b"x" * 100)
    (home / "runs" / RUNS[1][0] / "run.duckdb").unlink()
    assert accelprof(home, "runs", "rm", RUNS[0][0], RUNS[1][0], "-y").returncode == 0
    assert [path.name for path in (home / "runs").iterdir()] == [RUNS[2][0]]


def test_what_cannot_be_done_is_refused(home: Path, tmp_path: Path) -> None:
    for words in (
        ["--verdict", "slow"], ["--since", "yesterday"], ["--tag", "=x"], ["tag", "gpt"],
        ["tag", "gpt", "=x"], ["tag", "x=y"], ["rm", str(home / "runs")],
        ["rm", str(home / "runs" / RUNS[0][0] / "run.duckdb"), "--yes"], ["nosuch"],
    ):  # fmt: skip
        refused(accelprof(home, "runs", *words))
    for words in (["rm", "nobody"], ["tag", "nobody", "a=b"], ["note", "nobody", "x"]):
        refused(accelprof(home, "runs", *words), 3)
    link = home / "runs" / "20260501-080000-link-dd44"
    link.symlink_to(home / "runs" / RUNS[0][0])
    refused(accelprof(home, "runs", "rm", "link", "--yes"))
    assert len(list((home / "runs").iterdir())) == 4


def test_a_run_that_is_being_recorded_is_left_alone(tmp_path: Path) -> None:
    with recorded.live(tmp_path):
        for words in (["rm", "last", "--yes"], ["tag", "last", "a=b"], ["note", "last", "x"]):
            assert "being recorded" in refused(accelprof(tmp_path, "runs", *words))
        assert json.loads(accelprof(tmp_path, "runs", "--json").stdout)["runs"][0]["steps"] == 60


def test_moments() -> None:
    now = datetime(2026, 3, 10, 12, tzinfo=UTC)
    assert moment("--since", "7d", now=now) == now - timedelta(days=7)
    assert moment("--since", "90 min", now=now) == now - timedelta(minutes=90)
    assert moment("--since", "2026-03-10T12:00:00+02:00") == now - timedelta(hours=2)
    local = moment("--since", "2026-03-10")
    assert local.timestamp() == time.mktime((2026, 3, 10, 0, 0, 0, 0, 0, -1))


def test_the_list_keeps_to_the_terminal() -> None:
    started = datetime(2026, 11, 30, 10, 16, 40, tzinfo=UTC)
    row = Row(
        "20261130-101640-resnet-ab12", "resnet", "killed", started.isoformat(), 198.0, ["x"],
        {"team": "vision", "sweep": "learning-rate"}, "communication-bound", "medium", 61_250,
        5.97, exit_status=130,
    )  # fmt: skip
    for room in (64, 80, 100, 104, 160, None):
        head, line = table([row], started.timestamp() + 90, Paint(False), room).splitlines()
        assert max(len(head), len(line)) <= (room or 200)
        assert line.startswith(row.id) and "communication-bound" in line
        assert "interrupted" in line, "as the card says it"
        assert ("team=vision" in line) == (room in (160, None)), room
