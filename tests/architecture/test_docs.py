"""The documentation names what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from accelprof.profiler.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "samples/README.md"]


def test_the_readme_lists_every_command_and_no_other() -> None:
    listed = re.findall(r"^\| `accelprof ([\w-]+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(name for name, _ in COMMANDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_architecture_names_every_folder_of_the_product() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    for folder in ("hooks", "storage", "profiler", "tui", "samples", "tests", "benchmarks"):
        assert f"`{folder}/`" in text


def test_ci_runs_the_command_of_the_readme() -> None:
    assert "make test" in (ROOT / "README.md").read_text()
    assert "make test" in (ROOT / ".ci/run").read_text()
