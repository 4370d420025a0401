"""Jobs with a known truth that lie beside the checkout, when they are there."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from .conftest import ROOT, User

FOLDER = ROOT.parent / "shared" / "workloads"
TRUTH = FOLDER / "truth.toml"
# Enough for a verdict; a job that is not named runs as long as it will.
SHORT = {
    "checkpoint_often": 50,
    "compute_gemm": 26,
    "host_small_ops": 150,
    "input_decode_inprocess": 50,
    "input_fixed": 50,
    "input_slow_storage": 45,
    "memory_decode": 120,
    "memory_elementwise": 30,
}


def truths() -> dict[str, Any]:
    """The table of acceptable verdicts; empty when there is none."""
    return tomllib.loads(TRUTH.read_text()) if TRUTH.exists() else {}


def test_there_are_labelled_jobs() -> None:
    if not TRUTH.exists():
        pytest.skip(f"no labelled jobs beside the checkout ({FOLDER})")
    for name in truths():
        assert (FOLDER / f"{name}.py").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", truths())
def test_verdict(name: str, user: User) -> None:
    truth = truths()[name]
    steps = {"STEPS": str(SHORT[name])} if name in SHORT else {}
    ran = user.runs(name, "python", FOLDER / f"{name}.py", **steps)
    assert ran.status == 0, ran.stderr
    assert ran.verdict["bottleneck"] in truth["bottleneck"], f"{ran}"
    assert ran.verdict["bottleneck"] not in truth.get("not", []), f"{ran}"
    if "cause" in truth:
        assert ran.verdict["cause"] in truth["cause"], f"{ran}"
    for key, (least, most) in ranges(truth).items():
        assert least <= ran.shares[key] <= most, f"{ran}"


def ranges(truth: dict[str, Any]) -> dict[str, Any]:
    """`input_share = [0.75, 1.0]` and its like."""
    return {key.removesuffix("_share"): truth[key] for key in truth if key.endswith("_share")}
