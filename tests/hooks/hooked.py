"""Runs real jobs with and without the hooks."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spool_reading import Process, read

import accelprof

ROOT = Path(accelprof.__file__).resolve().parent
INJECT = ROOT / "hooks" / "inject"
VERSIONS = Path.home() / ".pyenv" / "versions"


@dataclass
class Ended:
    """How a job ended, and what its spool holds."""

    out: str
    err: str
    status: int
    spool: Path

    def processes(self) -> list[Process]:
        return read(self.spool)

    def main(self) -> Process:
        return self.processes()[0]


def run(
    script: str | Path,
    folder: Path,
    *args: str,
    hooks: bool = True,
    python: str | Path = sys.executable,
    options: tuple[str, ...] = (),
    status: int | None = 0,
    **environ: str,
) -> Ended:
    """Runs a script (text, or the path of one) from `folder` and reads what its hooks told."""
    folder.mkdir(exist_ok=True)
    path = script if isinstance(script, Path) else folder / "job.py"
    if isinstance(script, str):
        path.write_text(textwrap.dedent(script))
    spool = folder / ("spool" if hooks else "none")
    spool.mkdir(mode=0o700, exist_ok=True)
    env = os.environ | {"OMP_NUM_THREADS": "1"} | environ
    if hooks:
        own = environ.get("PYTHONPATH")
        env |= {"PYTHONPATH": f"{INJECT}:{own}" if own else str(INJECT)}
        env |= {"ACCELPROF_SPOOL": str(spool)}
        if own is not None:
            env["ACCELPROF_PYTHONPATH"] = own
    done = subprocess.run(
        [str(python), *options, str(path), *args],
        cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if status is not None:
        assert done.returncode == status, done.stderr
    return Ended(done.stdout, done.stderr, done.returncode, spool)


def both(
    script: str,
    folder: Path,
    *args: str,
    same: Callable[[str], str] = str,
    **options: object,
) -> tuple[Ended, Ended]:
    """The same job without and with hooks; what it prints and how it ends must be the same.

    `same` takes out of a text what may differ.
    """
    plain = run(script, folder, *args, hooks=False, **options)  # type: ignore[arg-type]
    ours = run(script, folder, *args, **options)  # type: ignore[arg-type]
    assert same(ours.out) == same(plain.out)
    assert same(ours.err) == same(plain.err)
    assert ours.status == plain.status
    return plain, ours
