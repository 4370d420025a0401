"""A real terminal around a real process: pexpect gives the pty, pyte keeps the screen."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pexpect
import pyte

WAIT_S = 60.0


class Terminal:
    """`accelprof WORDS` in a terminal of a size."""

    def __init__(self, words: list[str], home: Path, columns: int = 80, rows: int = 24) -> None:
        environment = {
            **{k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLORTERM")},
            "ACCELPROF_HOME": str(home), "TERM": "xterm-256color", "LANG": "C.UTF-8",
        }  # fmt: skip
        self.screen = pyte.Screen(columns, rows)
        self.raw = b""
        self._stream = pyte.ByteStream(self.screen)
        self.child = pexpect.spawn(
            sys.executable,
            ["-m", "accelprof", *words],
            dimensions=(rows, columns),
            env=environment,
            timeout=WAIT_S,
        )

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def until(self, done: Callable[[str], bool], *, still: bool = False) -> str:
        """Reads until the screen is as wanted; with `still`, and nothing more comes."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            quiet = not self._read()
            if done(self.text) and (quiet or not still):
                return self.text
        raise AssertionError(f"the screen never came to be so:\n{self.text}")

    def _read(self) -> bool:
        try:
            data = self.child.read_nonblocking(65536, timeout=0.3)
        except pexpect.TIMEOUT:
            return False
        except pexpect.EOF:
            return False
        self.raw += data
        # pyte knows neither synchronised output nor the kitty keyboard's `CSI > 1 u`
        self._stream.feed(_plain(data))
        return True

    def press(self, keys: str) -> None:
        self.child.send(keys)

    def end(self) -> int:
        """Waits for the process; its exit status."""
        self.child.expect(pexpect.EOF)
        self.raw += self.child.before or b""
        self.child.close()
        return int(self.child.exitstatus if self.child.exitstatus is not None else -1)


def _plain(data: bytes) -> bytes:
    return re.sub(rb"\x1b\[[<>=?][\d;]*[a-zA-Z]", b"", data)
