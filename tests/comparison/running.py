"""Runs accelprof on a library of recorded runs: as a process, or faster in this one."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from accelprof.profiler.commands import main


def process(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command as its users start it."""
    return subprocess.run(
        [sys.executable, "-m", "accelprof", *words], capture_output=True, text=True, check=False,
        env=os.environ | {"ACCELPROF_HOME": str(home)}, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def accelprof(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The same without the start of an interpreter; stderr is taken at its descriptor."""
    kept_home, kept_stderr = os.environ.get("ACCELPROF_HOME"), os.dup(2)
    stdout = io.StringIO()
    with tempfile.TemporaryFile("w+") as stderr:
        try:
            os.dup2(stderr.fileno(), 2)
            os.environ["ACCELPROF_HOME"] = str(home)
            with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
                status = main(list(words))
            stderr.flush()
        finally:
            os.dup2(kept_stderr, 2)
            os.close(kept_stderr)
            if kept_home is not None:
                os.environ["ACCELPROF_HOME"] = kept_home
        stderr.seek(0)
        return subprocess.CompletedProcess(words, status, stdout.getvalue(), stderr.read())


def refused(done: subprocess.CompletedProcess[str], status: int = 2) -> str:
    """The one line of a command that was refused."""
    assert done.returncode == status, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("accelprof: ") and done.stderr.count("\n") == 1
    return done.stderr
