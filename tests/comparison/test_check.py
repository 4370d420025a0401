"""`accelprof check`: exit statuses, figures, JUnit and annotations."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import pairs
from running import accelprof, process, refused

from accelprof.profiler.diagnosis import ids


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("home")
    pairs.record(path, "slow", wait_ms=60)
    pairs.record(path, "again", wait_ms=60.2, seed=2)
    pairs.record(path, "fast", wait_ms=10, seed=3)
    pairs.record(path, "unknown", samples=None)
    pairs.record(path, "none", steps=0)
    pairs.record(path, "gpu", device="NVIDIA H100 80GB HBM3")
    return path


def check(home: Path, *words: str) -> tuple[int, dict[str, Any]]:
    done = accelprof(home, "check", *words, "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["schema"] == "accelprof.check/1"
    assert all({"name", "limit", "value", "unit", "passed"} <= set(c) for c in found["checks"])
    return done.returncode, found


@pytest.mark.parametrize(
    ("run", "words", "status", "value"),
    [
        ("fast", "--max-input-share 25", 0, 20.0),
        ("slow", "--max-input-share 25", 1, 60.0),
        ("fast", "--min-throughput 600", 0, 640.0),
        ("slow", "--min-throughput 600", 1, 320.0),
        ("slow", "--max-step-ms 101", 0, 100.0),
        ("slow", "--max-step-ms 99", 1, 100.0),
        ("slow", "--max-step-ms-p95 110", 0, 105.4),
        ("gpu", "--max-memory 40GB", 0, 30 << 30),
        ("gpu", "--max-memory 30GB", 1, 30 << 30),
        ("gpu", "--min-device-busy 50", 1, 40.0),
    ],
)
def test_limits(home: Path, run: str, words: str, status: int, value: float) -> None:
    code, found = check(home, run, *words.split())
    assert (code, found["passed"]) == (status, status == 0)
    assert found["checks"][0]["value"] == pytest.approx(value, rel=0.02)
    assert found["checks"][0]["name"] == words.split(maxsplit=1)[0].removeprefix("--")


def test_what_is_not_known_fails_with_its_reason(home: Path) -> None:
    for run, words, reason in (
        ("none", "--max-input-share 100", "no steps"),
        ("none", "--max-step-ms 100000", "no steps"),
        ("unknown", "--min-throughput 0", "--samples-per-step"),
        ("slow", "--max-memory 1TB", "no accelerator"),
        ("slow", "--max-cost 100", "no price"),
    ):
        code, found = check(home, run, *words.split())
        assert code == 1
        assert found["checks"][0]["value"] is None
        assert reason in found["checks"][0]["reason"]


def test_a_regression(home: Path) -> None:
    code, found = check(home, "slow", "--baseline", "fast", "--max-regression", "10")
    assert code == 1
    assert found["checks"][0]["value"] == pytest.approx(50.0, abs=2)
    assert check(home, "slow", "--baseline", "fast", "--max-regression", "60")[0] == 0
    assert check(home, "fast", "--baseline", "slow")[0] == 0
    code, found = check(home, "again", "--baseline", "slow", "--max-regression", "0")
    assert code == 0  # a loss of a part of a per cent is noise
    assert check(home, "unknown", "--baseline", "slow")[0] == 1
    assert check(home, "none", "--baseline", "slow")[0] == 1


def test_a_baseline_may_be_a_file(home: Path) -> None:
    file = next((home / "runs").glob("*-fast-*")) / "run.duckdb"
    assert check(home, "slow", "--baseline", str(file))[0] == 1


def test_findings_can_be_forbidden(home: Path) -> None:
    code, found = check(home, "slow", "--forbid", "worker-died")
    assert (code, found["checks"][0]["value"]) == (0, "absent")
    line = refused(accelprof(home, "check", "slow", "--forbid", "worker-dead"))
    assert "the nearest is worker-died" in line  # a slip of the pen must not pass for ever


def test_every_finding_can_be_forbidden() -> None:
    rules = Path(ids.__file__).parent
    calls = [
        word.value
        for file in rules.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("finding", "_finding")
        for word in node.args[:2]
        if isinstance(word, ast.Constant) and isinstance(word.value, str) and " " not in word.value
    ]
    assert len(calls) > 30 and set(calls) <= ids.FINDING_IDS


def test_for_people(home: Path) -> None:
    done = process(home, "check", "slow", "--max-input-share", "25", "--min-throughput", "10")
    assert done.returncode == 1
    first, second, total = done.stdout.splitlines()
    assert first.startswith("FAILED  max-input-share: 6") and "limit 25 %" in first
    assert second.startswith("passed  min-throughput")
    assert total.startswith("1 of 2 limits failed")
    assert done.stderr == ""  # the answer is on stdout, whole


def test_junit(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    words = ["--max-input-share", "25", "--min-throughput", "10", "--junit", str(file)]
    assert accelprof(home, "check", "slow", *words).returncode == 1
    suite = ElementTree.parse(file).getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    failure = suite[0].find("failure")
    assert failure is not None and "limit 25 %" in (failure.get("message") or "")
    assert suite[1].find("failure") is None


def test_annotations(home: Path) -> None:
    words = ["check", "slow", "--max-input-share", "25", "--github"]
    done = accelprof(home, *words)
    assert done.stdout.startswith("::error title=accelprof%3A max-input-share::")
    assert "%25" in done.stdout.splitlines()[0]
    done = accelprof(home, *words, "--json")
    json.loads(done.stdout)
    assert done.stderr.startswith("::error ")
    done = accelprof(home, "check", "fast", "--max-input-share", "25", "--github")
    assert done.stdout.startswith("::notice ")


def test_wrong_use(home: Path) -> None:
    assert "no limit" in refused(process(home, "check"))
    refused(accelprof(home, "check", "slow", "--max-regression", "5"))
    refused(accelprof(home, "check", "slow", "--max-memory", "much"))
    refused(accelprof(home, "check", "slow", "--max-input-share", "101"))
    refused(accelprof(home, "check", "nobody", "--max-input-share", "10"), 3)
    refused(accelprof(home, "check", "slow", "--baseline", "nobody"), 3)
