"""The recorders' own messages."""

from __future__ import annotations

import contextlib
import os
import time
import traceback
from typing import Any

COMPLAINTS_MAX = 20  # of one part in the log


class Log:
    """Lines in the run's log.txt (our stderr), each part's complaints bounded."""

    def __init__(self) -> None:
        self._count: dict[str, int] = {}
        self._told_s: dict[str, float] = {}

    def write(self, text: str) -> None:
        """One line with the time."""
        with contextlib.suppress(OSError):
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            os.write(2, f"{stamp} {text}\n".encode("utf-8", "replace"))

    @contextlib.contextmanager
    def fence(self, part: str) -> Any:
        """Whatever fails inside costs only that part; the first time with a traceback."""
        try:
            yield
        except Exception as error:
            count = self._count[part] = self._count.get(part, 0) + 1
            if count == 1:
                self.write(f"{part} failed:\n{traceback.format_exc()}")
            elif count <= COMPLAINTS_MAX:
                self.write(f"{part} failed ({count}): {type(error).__name__}: {error}")

    def seldom(self, text: str, every_s: float) -> None:
        """The same line at most once in `every_s`."""
        now = time.monotonic()
        if now - self._told_s.get(text, -every_s) >= every_s:
            self._told_s[text] = now
            self.write(text)
