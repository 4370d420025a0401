"""Every sample gets the verdict that its header promises."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from accelprof.benchmarks.verdicts.truth import Truth, of_header

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


def is_fix(path: Path) -> bool:
    """Whether the sample is the fixed twin of another one."""
    return "\nfixes: " in (ast.get_docstring(ast.parse(path.read_text())) or "")


def wrong(path: Path, user: User) -> list[str]:
    """Runs a sample; what is other than its header says."""
    ran = user.runs(path.stem, "python", path, STEPS=str(SHORT[path.stem]))
    assert ran.status == 0, ran.stderr
    assert sum(ran.shares.values()) == pytest.approx(1, abs=1e-6)
    found = truth(path).mistakes(ran.verdict, ran.shares)
    return [f"{found}: {ran}"] if found else []


def truth(path: Path) -> Truth:
    found = of_header(path)
    assert found is not None, f"{path.name} has no line `expect: `"
    return found


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
    assert truth(path).bottleneck
    assert f"{path.name} |" in (path.parent / "README.md").read_text()


def test_steps_may_be_shortened(tmp_path: Path) -> None:
    """STEPS=1 ends at once, without accelprof."""
    sample = ROOT / "samples" / "loss_loop.py"
    done = subprocess.run(
        [sys.executable, sample], env=os.environ | {"STEPS": "1"}, cwd=tmp_path, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0
