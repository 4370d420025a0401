"""A recorder of its own home, over the stub driver with two cards."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from accelprof.storage.reader import open_run

sys.path.insert(0, str(Path(__file__).parents[1]))

from stub_nvml.build import build, environment
from stub_nvml.cards import card, write_script

ACCELPROF = [sys.executable, "-m", "accelprof"]


def wait_until(
    true: Callable[[], Any], what: str | Callable[[], str], limit_s: float = 40.0
) -> Any:
    """Polls for what another process does."""
    deadline = time.monotonic() + limit_s
    while not (found := true()):
        late = time.monotonic() >= deadline
        assert not late, f"did not come about: {what() if callable(what) else what}"
        time.sleep(0.05)
    return found


class Host:
    """Commands in an environment where the driver is the stub."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.environ = environ | {"ACCELPROF_HOME": str(self.home), "LANG": "C.UTF-8"}

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        command = [*ACCELPROF, *map(str, words)]
        return subprocess.run(
            command, env=self.environ, capture_output=True, text=True, timeout=90, check=False
        )

    def status(self) -> dict[str, Any]:
        done = self.run("daemon", "status", "--json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with open_run(self.home / "daemon") as reader:
            return reader.rows(sql)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    script = write_script(tmp_path / "script", [card("h100", 0), card("t4", 1)])
    host = Host(tmp_path, environment(build(tmp_path / "stub"), script))
    yield host
    host.run("daemon", "stop")
