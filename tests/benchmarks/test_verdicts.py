"""benchmarks/verdicts reads truths and tells a loud mistake from a quiet one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from accelprof.benchmarks.verdicts.run import Row
from accelprof.benchmarks.verdicts.truth import Truth, of_folder, of_samples

ROOT = Path(__file__).parents[2]


def test_every_sample_has_a_truth() -> None:
    found = of_samples(ROOT / "samples")
    assert len(found) == len(list((ROOT / "samples").glob("*.py")))
    assert all(t.bottleneck for t in found)


def test_a_folder_of_traces(tmp_path: Path) -> None:
    (tmp_path / "truth.toml").write_text(
        '[a]\nbottleneck = ["input-bound"]\ninput_share = [0.3, 0.5]\n[b]\nnot = ["input-bound"]\n'
    )
    a, b = of_folder(tmp_path, ".json.gz")
    assert a.path == tmp_path / "a.json.gz" and a.shares == {"input": (0.3, 0.5)}
    verdict = {"bottleneck": "input-bound", "cause": None, "confidence": "low"}
    assert a.mistakes(verdict, {"input": 0.4}) == []
    assert a.mistakes(verdict, {"input": 0.6}) == ["input 60%"]
    assert b.mistakes(verdict, {}) == ["bottleneck"]


@pytest.mark.parametrize(("sure", "mark"), [("high", " !!"), ("low", " wrong")])
def test_a_wrong_verdict_with_high_confidence_stands_out(sure: str, mark: str) -> None:
    truth = Truth("job", Path("job.py"), ("compute-bound",))
    verdict = {"bottleneck": "input-bound", "cause": "storage", "confidence": sure}
    assert f"{mark}  bottleneck" in str(Row(truth, verdict, truth.mistakes(verdict, {})))


def test_help() -> None:
    done = subprocess.run([sys.executable, ROOT / "benchmarks" / "verdicts", "--help"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert "--workloads" in done.stdout
