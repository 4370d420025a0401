"""What only libtpu's SDK tells (tensor-core utilisation), from a child process with a deadline."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from .nvml_driver import Missing

METRICS = ("tensorcore_util", "tpu_throttle_score", "ici_link_health")
DEADLINE_S = 20.0  # for the first line and between lines; the import alone takes a second or two
NOT_INSTALLED = Missing("needs libtpu in the Python that runs accelprof: pip install libtpu")
# Without it the first question waits minutes for Google's metadata server, off Google's cloud.
ENVIRONMENT = {"TPU_SKIP_MDS_QUERY": "1"}


def command() -> list[str] | None:
    """How the child is started; None where libtpu is not installed."""
    try:
        if importlib.util.find_spec("libtpu") is None:
            return None
    except (ImportError, ValueError):
        return None
    script = Path(__file__).with_name("tpu_sdk_child.py")
    return [sys.executable, "-P", str(script), *METRICS]


class Sdk:
    """The child and its newest line. It is started by `start` and never twice."""

    def __init__(self, command: Sequence[str] | None, deadline_s: float = DEADLINE_S) -> None:
        self._command, self._deadline_s = command, deadline_s
        self._child: subprocess.Popen[bytes] | None = None
        self._newest: dict[str, list[str]] = {}
        self._heard = 0.0  # monotonic s
        self.failure: Missing | None = None if command else NOT_INSTALLED

    def start(self) -> None:
        if self._child is not None or self.failure is not None or self._command is None:
            return
        self._heard = time.monotonic()
        try:
            self._child = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, env=os.environ | ENVIRONMENT,
            )  # fmt: skip
        except OSError as error:
            self.failure = Missing(f"libtpu's SDK cannot be asked: {error}")
            return
        threading.Thread(target=self._listen, name="tpu-sdk", daemon=True).start()

    def _listen(self) -> None:
        child = self._child
        assert child is not None and child.stdout is not None
        for line in child.stdout:
            try:
                values = json.loads(line)
            except ValueError:
                continue
            if isinstance(values, dict):
                self._newest = values
                self._heard = time.monotonic()
        status = child.wait()
        if self.failure is None:
            self.failure = Missing(f"libtpu's SDK ended with status {status}")
        self._newest = {}

    def values(self) -> dict[str, list[str]] | Missing:
        """The newest values by metric; empty until there are some."""
        if self.failure is not None:
            return self.failure
        if self._child is not None and time.monotonic() - self._heard > self._deadline_s:
            self.failure = Missing(f"libtpu's SDK has not answered for {self._deadline_s:g} s")
            self._child.kill()
            return self.failure
        return self._newest

    def close(self) -> None:
        """Ends the child at once: it holds nothing worth waiting for."""
        if self._child is not None:
            self.failure = self.failure or Missing("closed")
            self._child.kill()
