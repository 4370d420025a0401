"""The job's own profilers, tracers, loggers and timers see what they see without accelprof."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .test_matrix import ACCELPROF

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
JOB = Path(__file__).with_name("tools.py")


def both(folder: Path, *words: str) -> tuple[str, str]:
    """What the job prints without accelprof and with it; a capture of ours falls into it."""
    said = []
    for before in ([], ACCELPROF):
        done = subprocess.run(
            [*before, sys.executable, *words], cwd=folder, capture_output=True, text=True,
            env=os.environ | {"ACCELPROF_HOME": str(folder / "home")}, timeout=400, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        # Kineto's own log lines are turned off in a process that was captured
        assert not re.sub("^USDT.*\n|.*(UserWarning|_warn_once).*\n", "", done.stderr, flags=re.M)
        said.append(done.stdout)
    return said[0], said[1]


def test_tools_of_python_and_torch(tmp_path: Path) -> None:
    plain, ours = both(tmp_path, str(JOB))
    assert ours.splitlines() == plain.splitlines()


def tool(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")


def test_coverage_counts_the_same_lines(tmp_path: Path) -> None:
    tool("coverage")
    seen: list[Any] = []
    for before in ([], ACCELPROF):
        words = ["-m", "coverage", "run", "--branch", f"--include={JOB}", str(JOB), "job"]
        environ = os.environ | {"ACCELPROF_HOME": str(tmp_path / "home")}
        subprocess.run([*before, sys.executable, *words], cwd=tmp_path, env=environ, check=True)
        as_json = [sys.executable, "-m", "coverage", "json", "-q", "-o", "coverage.json"]
        subprocess.run(as_json, cwd=tmp_path, check=True)
        (file,) = json.loads((tmp_path / "coverage.json").read_text())["files"].values()
        seen.append((file["executed_lines"], file["executed_branches"], file["missing_branches"]))
    assert seen[0][0] and seen[1] == seen[0]


def test_viztracer_records_the_same_calls(tmp_path: Path) -> None:
    tool("viztracer")
    seen = []
    for before in ([], ACCELPROF):
        words = ["-m", "viztracer", "--quiet", "--tracer_entries", "3000000", "-o", "trace.json"]
        environ = os.environ | {"ACCELPROF_HOME": str(tmp_path / "home")}
        subprocess.run([*before, sys.executable, *words, str(JOB), "job"], cwd=tmp_path,
                       env=environ, check=True)  # fmt: skip
        events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        seen.append([e["name"] for e in events if str(JOB) in e["name"]])
    assert len(seen[0]) > 100 and seen[1] == seen[0]
