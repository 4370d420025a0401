"""Names made to act, through every command that shows them: nothing acts."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "exports"))
sys.path.insert(0, str(Path(__file__).parents[1] / "comparison"))
import recorded
from running import accelprof

from accelprof.storage.writer import RunWriter

EVIL = (
    "\x1b[31m\x1b]0;owned\x07<script>alert(1)</script><img src=x onerror=alert(2)>"
    "[a](javascript:alert(3))\r\n::error::owned\u202e`|| @everyone"
)
OTHER = "20260113-101640-other-cd34"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("home")
    for run_id in (recorded.RUN_ID, OTHER):
        folder = recorded.record(path, run_id=run_id, steps=120, gpu=True)
        writer = RunWriter(folder / "run.duckdb")
        writer.update_run(
            name=EVIL, command=["python", EVIL, run_id], cwd=EVIL, host=EVIL, user=EVIL,
            tags={EVIL: EVIL}, note=EVIL, git_commit=EVIL,
            environment={"python": EVIL, "torch": EVIL, "variables": {EVIL: EVIL}},
        )  # fmt: skip
        writer.append("gap", [(1, EVIL, EVIL, None, EVIL)])
        writer.close()
    return path


def harmless(written: str) -> None:
    """No control reaches the terminal, and no line begins as the name wants it to."""
    assert written and not {"\x1b", "\x07", "\r", "\u202e"} & set(written)
    assert not any(line.startswith("::error::owned") for line in written.splitlines())


@pytest.mark.parametrize(
    "words",
    [
        ["runs"], ["report"], ["report", "--format", "md"], ["compare", recorded.RUN_ID, OTHER],
        ["compare", recorded.RUN_ID, OTHER, "--table", "--format", "md"],
        ["check", "--max-input-share", "1", "--github"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_in_a_terminal(home: Path, words: list[str]) -> None:
    done = accelprof(home, *words)
    assert done.returncode in (0, 1), done.stderr
    harmless(done.stdout + done.stderr)


@pytest.mark.parametrize(
    "words", [["report"], ["compare", recorded.RUN_ID, OTHER]], ids=["report", "compare"]
)
def test_in_a_page(home: Path, tmp_path: Path, words: list[str]) -> None:
    done = accelprof(home, *words, "-o", str(tmp_path / "page.html"))
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    harmless(page)
    for raw in ("<script>alert", "<img src=x", 'href="javascript:'):
        assert raw not in page


def test_in_junit(home: Path, tmp_path: Path) -> None:
    accelprof(home, "check", "--max-input-share", "1", "--junit", str(tmp_path / "limits.xml"))
    harmless(ElementTree.tostring(ElementTree.parse(tmp_path / "limits.xml").getroot(), "unicode"))


def test_in_a_fleet(home: Path, tmp_path: Path) -> None:
    pytest.importorskip("ibis", reason="needs the extra")
    for run in (recorded.RUN_ID, OTHER):
        done = accelprof(home, "export", run, "--parquet", str(tmp_path / "lake"))
        assert done.returncode == 0, done.stderr
    assert all(path.is_relative_to(tmp_path / "lake") for path in tmp_path.rglob("*.parquet"))
    done = accelprof(home, "fleet", str(tmp_path / "lake"), "--by", "tag")
    assert done.returncode == 0, done.stderr
    harmless(done.stdout)
