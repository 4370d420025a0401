"""A home on a file system that refuses every lock: runs are recorded and read all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ACCELPROF = [sys.executable, "-m", "accelprof"]


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("unlocked")
    library = folder / "no_locks.so"
    source = Path(__file__).with_name("no_locks.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    spare = folder / "tmp"
    spare.mkdir()
    return os.environ | {
        "LD_PRELOAD": str(library), "ACCELPROF_HOME": str(folder / "home"), "TMPDIR": str(spare),
        "NO_LOCKS": str(folder / "home"),
    }  # fmt: skip


def test_a_run_and_its_readers(environ: dict[str, str]) -> None:
    def accelprof(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*ACCELPROF, *words], env=environ, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip

    begun = "until ls $ACCELPROF_HOME/runs/*/agent.sock >/dev/null 2>&1; do sleep 0.1; done"
    inside = " ".join([*ACCELPROF, "sql", "last", "'SELECT state FROM run'"])
    live = accelprof("run", "--quiet", "--stacks", "off", "sh", "-c", f"{begun}; {inside}; exit 4")
    assert (live.returncode, live.stderr) == (4, "")
    assert live.stdout.split() == ["state", "running"]
    done = accelprof("sql", "SELECT state, exit_status FROM run")
    assert (done.returncode, done.stdout.split()[2:]) == (0, ["failed", "4"]), done.stderr
    assert list(Path(environ["TMPDIR"]).iterdir()) == []
