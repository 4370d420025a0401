"""Runs of real jobs as a user makes them: the command line in a shell, and what it leaves.

All runs of a session share one home, so that the machine's ceilings are measured once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


@dataclass
class Ran:
    """One finished `accelprof run`."""

    name: str
    status: int
    stdout: str
    stderr: str
    report: dict[str, Any] = field(repr=False, default_factory=dict)

    @property
    def verdict(self) -> dict[str, Any]:
        """Bottleneck, cause, confidence."""
        found: dict[str, Any] = self.report["verdict"]
        return found

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the steady time."""
        found: dict[str, float] = self.report["time"]["shares"]
        return found

    def __str__(self) -> str:
        return f"{self.verdict}\n{self.shares}\n{self.report['findings']}\n{self.stderr}"


class User:
    """Types commands."""

    def __init__(self, home: Path) -> None:
        self.home = home
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        self.environ = os.environ | {"ACCELPROF_HOME": str(home), "PATH": path}

    def types(
        self, *words: str | Path, cwd: Path = ROOT, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """A command line to its end."""
        return subprocess.run(
            [str(word) for word in words], cwd=cwd, env=self.environ | environ,
            capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip

    def starts(self, *words: str | Path, **environ: str) -> subprocess.Popen[str]:
        """A command line in the background, in a process group of its own."""
        return subprocess.Popen(
            [str(word) for word in words], cwd=ROOT, env=self.environ | environ, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0,
        )  # fmt: skip

    def reads(self, run: str) -> dict[str, Any]:
        """The JSON report of a run."""
        done = self.types("accelprof", "report", run, "--json")
        assert done.returncode == 0, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def runs(self, name: str, *command: str | Path, **environ: str) -> Ran:
        """`accelprof run --name NAME COMMAND`, and the report of what it recorded."""
        done = self.types("accelprof", "run", "--name", name, *command, **environ)
        return Ran(name, done.returncode, done.stdout, done.stderr, self.reads(name))


@pytest.fixture(scope="session")
def user(tmp_path_factory: pytest.TempPathFactory) -> User:
    return User(tmp_path_factory.mktemp("library"))


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Any]:
    """Writes a script of one's own."""

    def write(text: str, name: str = "job.py") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    yield write
