"""Real `accelprof run` processes, each with a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]
import pytest

from accelprof.storage.library import list_runs
from accelprof.storage.reader import open_run

ACCELPROF = [sys.executable, "-m", "accelprof"]


def wait_until(true: Callable[[], Any], what: str, limit_s: float = 15.0) -> Any:
    """Polls for something that another process does and that gives no event."""
    deadline = time.monotonic() + limit_s
    while not (found := true()):
        assert time.monotonic() < deadline, f"did not come about: {what}"
        time.sleep(0.01)
    return found


def state(pid: int) -> str | None:
    """The letter of /proc/PID/stat; None when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None


def children(pid: int) -> list[int]:
    """The children of a process."""
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


class Bench:
    """Starts accelprof with a home in a temporary folder and looks into what it recorded."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.environ = {
            **os.environ, "ACCELPROF_HOME": str(self.home), "TERM": "xterm", "LANG": "C.UTF-8",
        }  # fmt: skip
        self.started: list[subprocess.Popen[bytes]] = []

    def script(self, text: str, name: str = "job.py") -> Path:
        """A script file."""
        path = self.folder / name
        path.write_text(text)
        return path

    def run(self, *words: str | Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
        """`accelprof WORDS` to its end."""
        settings: dict[str, Any] = {"capture_output": True, "timeout": 60, "cwd": self.folder}
        environ = self.environ | options.pop("env", {})
        command = [*ACCELPROF, *map(str, words)]
        done: subprocess.CompletedProcess[bytes]
        done = subprocess.run(command, env=environ, check=False, **(settings | options))
        return done

    def job(self, text: str, *words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
        """`accelprof run --quiet WORDS python SCRIPT`."""
        script = self.script(text)
        return self.run("run", "--quiet", *words, sys.executable, script, **options)

    def start(self, *words: str | Path, stdin: int | None = None) -> subprocess.Popen[bytes]:
        """`accelprof WORDS` in the background, in a process group of its own."""
        process: subprocess.Popen[bytes] = subprocess.Popen(
            [*ACCELPROF, *map(str, words)],
            env=self.environ,
            cwd=self.folder,
            process_group=0,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.started.append(process)
        return process

    def terminal(self, *words: str | Path, size: tuple[int, int] = (24, 80)) -> pexpect.spawn:
        """`accelprof WORDS` in a terminal of its own."""
        return pexpect.spawn(
            ACCELPROF[0], [*ACCELPROF[1:], *map(str, words)], env=self.environ,
            cwd=str(self.folder), dimensions=size, timeout=30, encoding="utf-8",
        )  # fmt: skip

    @property
    def recorded(self) -> list[Path]:
        """The folders of the recorded runs, newest first."""
        return list_runs(self.home / "runs")

    def row(self) -> dict[str, Any]:
        """The newest run's row of table `run`."""
        with open_run(self.recorded[0]) as reader:
            row = reader.dicts("FROM run")[0]
        for key in ("environment", "settings", "quality"):
            row[key] = json.loads(row[key]) if row[key] else {}
        return row

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of the newest run."""
        with open_run(self.recorded[0]) as reader:
            return reader.rows(sql)

    def agent_of(self, launcher: int, job: int) -> int:
        """The agent's pid."""
        return int(
            wait_until(
                lambda: [pid for pid in children(launcher) if pid != job], "an agent is started"
            )[0]
        )


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    for process in bench.started:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()
