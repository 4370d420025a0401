"""`accelprof compare` on recorded runs, and the statistics under it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from accelprof.profiler.comparison import chance, changes, compare
from accelprof.profiler.comparison.metrics import step_rate
from accelprof.profiler.comparison.sides import Block

sys.path.insert(0, str(Path(__file__).parent))
import pairs
from running import accelprof, process, refused


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("home")
    pairs.record(path, "slow", wait_ms=60, workers=2)
    pairs.record(path, "again", wait_ms=60.1, workers=2, seed=2)
    pairs.record(path, "fast", wait_ms=10, workers=7, seed=3)
    pairs.record(path, "short", wait_ms=30, steps=12)
    pairs.record(path, "none", steps=0)
    return path


def body(home: Path, *words: str) -> dict[str, Any]:
    done = accelprof(home, "compare", *words, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def metric(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(m for m in found["metrics"] if m["name"] == name)


def test_json_has_the_keys_of_the_contract(home: Path) -> None:
    found = body(home, "slow", "fast")
    assert found["schema"] == "accelprof.compare/1"
    assert {"runs", "changed", "metrics", "headline"} <= set(found)
    assert {"arguments", "environment", "hardware", "git"} <= set(found["changed"])
    assert all(
        {"name", "unit", "values", "ratio", "interval", "significant"} <= set(m)
        for m in found["metrics"]
    )


def test_runs_of_unlike_programs_are_said_to_be_that_before_any_ratio() -> None:
    def side(*words: str) -> Any:
        return SimpleNamespace(report=SimpleNamespace(run=SimpleNamespace(command=list(words))))

    sides = [side("python", "cnn.py"), side("python", "-u", "infer.py", "--n", "3")]
    assert compare._unlike(sides) == "Different programs (cnn, infer). "
    assert compare._unlike([side("python", "cnn.py"), side("python3", "./cnn.py", "-x")]) == ""


def test_a_real_change_is_told_with_its_cause(home: Path) -> None:
    found = body(home, "slow", "fast")
    rate = metric(found, "samples_per_s")
    assert rate["significant"] is True
    assert rate["ratio"] == pytest.approx(2.0, rel=0.02)
    low, high = rate["interval"]
    assert low < rate["ratio"] < high
    assert high - low < 0.1
    assert metric(found, "share_input")["significant"] is True
    assert found["changed"]["settings"] == [{"name": "num_workers", "values": [2, 7]}]
    assert found["changed"]["arguments"] == [{"name": "--workers", "values": ["2", "7"]}]
    assert "fast is 2.00x as fast as slow" in found["headline"]
    assert "num_workers 2 to 7" in found["headline"]


def test_noise_is_called_noise(home: Path) -> None:
    found = body(home, "slow", "again")
    assert metric(found, "samples_per_s")["significant"] is False
    assert found["headline"].startswith("No difference beyond noise between slow and again")


def test_few_steps_cannot_tell(home: Path) -> None:
    found = body(home, "slow", "short")
    rate = metric(found, "samples_per_s")
    assert rate["significant"] is None and rate["interval"] is None
    assert "too few steps to tell" in found["headline"]


def test_a_run_without_steps(home: Path) -> None:
    found = body(home, "slow", "none")
    assert "no steady steps in none" in found["headline"]


def test_several_runs_against_the_first(home: Path) -> None:
    found = body(home, "slow", "fast", "again")
    against = metric(found, "samples_per_s")["against_first"]
    assert [a["significant"] for a in against] == [True, False]
    assert found["headline"].startswith("fast is the fastest")


def test_every_format(home: Path, tmp_path: Path) -> None:
    done = process(home, "compare", "slow", "fast")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("2 runs compared: fast is 2.00x as fast as slow")
    assert "\x1b" not in done.stdout
    for name, begin in (("c.md", "**2 runs"), ("c.html", "<!DOCTYPE"), ("c.json", "{")):
        done = accelprof(home, "compare", "slow", "fast", "-o", str(tmp_path / name))
        assert (done.returncode, done.stdout) == (0, "")
        assert (tmp_path / name).read_text().startswith(begin)
    assert (tmp_path / "c.html").read_text().count('<svg class="bar"') == 2


def test_what_cannot_be_compared_is_refused(home: Path, tmp_path: Path) -> None:
    refused(accelprof(home, "compare", "slow"))
    refused(accelprof(home, "compare", *["slow"] * 9))
    refused(accelprof(home, "compare", "slow", "fast", "-o", str(tmp_path / "c.pdf")))
    refused(accelprof(home, "compare", "slow", "slaw"), 3)


def test_the_eight_measures(home: Path) -> None:
    found = body(home, "slow", "fast", "--table")
    assert [m["name"] for m in found["table"]] == [
        "samples_per_s", "epoch_s", "largest_batch", "device_busy", "peak_bytes",
        "usd_per_epoch", "usd_run", "adapting_s",
    ]  # fmt: skip
    for measure in found["table"]:
        for value, how in zip(measure["values"], measure["how"], strict=True):
            assert value is not None or how
    assert body(home, "slow", "fast")["table"] is None


def test_time_to_adapt_the_code_and_price(tmp_path: Path) -> None:
    """Two tries failed on the new device before one finished, 12 s after the first began."""
    pairs.record(tmp_path, "t", device="Tesla T4", steps=30)
    for at, state in ((1, "failed"), (5, "failed"), (9, "finished")):
        pairs.record(tmp_path, f"h{at}", device="NVIDIA H100 80GB HBM3", started_s=at,
                     state=state, steps=30)  # fmt: skip
    found = body(tmp_path, "t", "h9", "--table")
    measures = {m["name"]: m for m in found["table"]}
    assert measures["adapting_s"]["values"][0] is None
    assert measures["adapting_s"]["values"][1] == pytest.approx(8 + 3.0, abs=0.3)
    assert "3 tries" in measures["adapting_s"]["how"][1]
    assert measures["usd_run"]["values"][1] > 0
    assert measures["usd_run"]["how"][1]


def test_what_changed_in_the_code(home: Path, tmp_path: Path) -> None:
    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    git("init", "-q")
    commits = []
    for text in ("one\n", "one\ntwo\n"):
        (tmp_path / "train.py").write_text(text)
        git("add", "train.py")
        git("commit", "-qm", text)
        commits.append(git("rev-parse", "HEAD"))
    stat = changes.git_stat(str(tmp_path), *commits)
    assert stat == "1 file changed, 1 insertion(+)"
    assert changes.git_stat(str(tmp_path), commits[0], "--output=x") is None
    assert changes.git_stat(str(tmp_path / "gone"), *commits) is None


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("python t.py --lr 3", {"program": "python", "argument 1": "t.py", "--lr": "3"}),
        ("python t.py --lr=3 -v", {"program": "python", "argument 1": "t.py", "--lr": "3",
                                  "-v": "given"}),
        ("t --x a --x b -3", {"program": "t", "--x": "a b", "argument 1": "-3"}),
        ("", {}),
    ],
)  # fmt: skip
def test_arguments_by_name(words: str, found: dict[str, str]) -> None:
    assert changes.arguments(words.split()) == found


def test_the_interval_holds_what_it_says() -> None:
    """Of two runs of one program, about 5 % of the intervals miss the ratio 1."""
    chance_ = random.Random(4)

    def blocks() -> list[Block]:
        return [Block(20, chance_.gauss(2.0, 0.1), 640, (), ()) for _ in range(24)]

    missed = 0
    for seed in range(60):
        scatters = [chance.scatter(blocks(), step_rate, seed=2 * seed + i) for i in (0, 1)]
        interval = chance.ratio_interval(*scatters)
        assert interval is not None
        missed += not interval[0] <= 1.0 <= interval[1]
    assert missed <= 9


def test_the_same_runs_give_the_same_interval(home: Path) -> None:
    assert body(home, "slow", "fast") == body(home, "slow", "fast")


@pytest.mark.parametrize("command", ["compare", "check", "export", "serve-metrics"])
def test_help_has_an_example(home: Path, command: str) -> None:
    done = process(home, command, "--help")
    assert done.returncode == 0
    assert f"Example: accelprof {command}" in done.stdout


def test_a_run_against_itself(home: Path) -> None:
    assert "compared with itself" in accelprof(home, "compare", "slow", "slow").stdout
