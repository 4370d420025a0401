"""Habits of the source tree."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINES_MAX = 400
# Longer for a reason: one state machine that is easier to follow in one piece.
LONGER = {"profiler/steps.py": 480}


def sources() -> list[Path]:
    """Tracked Python files of the product."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "hooks", "storage", "profiler", "tui", "samples", "*.py"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    keep = [name for name in listed if name.endswith(".py") and not name.startswith("tests/")]
    return [ROOT / name for name in keep if (ROOT / name).exists()]


@pytest.fixture(scope="module")
def files() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    return sources()


def test_no_file_outgrows_a_reader(files: list[Path]) -> None:
    long = {}
    for path in files:
        name, lines = str(path.relative_to(ROOT)), len(path.read_text().splitlines())
        if lines > LONGER.get(name, LINES_MAX):
            long[name] = lines
    assert not long


def test_every_file_says_what_it_is_for(files: list[Path]) -> None:
    texts = {str(path.relative_to(ROOT)): path.read_text().strip() for path in files}
    silent = [name for name, text in texts.items() if text and not text.startswith(('"""', "#"))]
    assert not silent
