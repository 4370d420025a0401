"""Every sample gets the verdict that its header promises."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from .conftest import ROOT, User

SAMPLES = sorted((ROOT / "samples").glob("*.py"))
# Enough for 20 steady steps after warm-up and a capture, and for stacks where there is no loader.
SHORT = {
    "accumulate_transformer": 36,
    "archive_cached": 60,
    "archive_locked": 45,
    "checkpoint_often": 60,
    "checkpoint_sparse": 200,
    "gan_histograms": 450,
    "gan_summary": 40,
    "gc_each_step": 40,
    "gc_frozen": 40,
    "images_cached": 45,
    "images_decode": 45,
    "loss_loop": 120,
    "loss_matrix": 40,
    "norm_chain": 36,
    "norm_fused": 40,
    "stream_inline": 350,
    "stream_thread": 45,
    "text_collate": 40,
    "text_tokens": 45,
}
TERM = re.compile(r"(\w+)(<=|>=|=)([\w.|-]+)")


@dataclass(frozen=True)
class Expectation:
    """What the header of a sample says."""

    bottleneck: list[str]
    cause: list[str]
    at_least: dict[str, float]
    at_most: dict[str, float]


def expectation(path: Path) -> Expectation:
    """The `expect:` line of a sample's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    (line,) = [line for line in text.splitlines() if line.startswith("expect: ")]
    terms = [match.groups() for match in TERM.finditer(line)]
    lists = {name: value.split("|") for name, sign, value in terms if sign == "="}
    return Expectation(
        lists.pop("bottleneck"),
        lists.pop("cause", []),
        {name: float(value) for name, sign, value in terms if sign == ">="},
        {name: float(value) for name, sign, value in terms if sign == "<="},
    )


def is_fix(path: Path) -> bool:
    """Whether the sample is the fixed twin of another one."""
    return "\nfixes: " in (ast.get_docstring(ast.parse(path.read_text())) or "")


def wrong(path: Path, user: User) -> list[str]:
    """Runs a sample; what is other than its header says."""
    expect = expectation(path)
    ran = user.runs(path.stem, "python", path, STEPS=str(SHORT[path.stem]))
    assert ran.status == 0, ran.stderr
    assert sum(ran.shares.values()) == pytest.approx(1, abs=1e-6)
    found = [] if ran.verdict["bottleneck"] in expect.bottleneck else ["bottleneck"]
    if expect.cause and ran.verdict["cause"] not in expect.cause:
        found.append("cause")
    found += [name for name, least in expect.at_least.items() if ran.shares[name] < least]
    found += [name for name, most in expect.at_most.items() if ran.shares[name] > most]
    return [f"{found}: {ran}"] if found else []


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=pytest.mark.slow if is_fix(p) else (), id=p.stem) for p in SAMPLES],
)
def test_verdict(path: Path, user: User) -> None:
    """Twice wrong is wrong: once may be another guest of the machine."""
    assert not (wrong(path, user) and (again := wrong(path, user))), again


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_header(path: Path) -> None:
    """A twin that exists and points back, and words that the report knows."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    for verb, answer in (("fixed by", "fixes"), ("fixes", "fixed by")):
        for twin in re.findall(rf"^{verb}: (\S+)$", text, re.MULTILINE):
            assert f"\n{answer}: {path.name}" in (path.parent / twin).read_text()
    assert expectation(path).bottleneck
    assert f"{path.name} |" in (path.parent / "README.md").read_text()


def test_steps_may_be_shortened(tmp_path: Path) -> None:
    """STEPS=1 ends at once, without accelprof."""
    sample = ROOT / "samples" / "loss_loop.py"
    done = subprocess.run(
        [sys.executable, sample], env=os.environ | {"STEPS": "1"}, cwd=tmp_path, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0
