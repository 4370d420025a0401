"""The job's output beside its run, as asciicast (version 2): what it wrote, and when.

Only a job with a terminal of ours (`run --tui`) has such a file: any other one writes to where the
user sent its output, and nothing of ours stands between. At most two halves are kept, the older
one is thrown away for a new one. `asciinema play output.cast` shows it, too.
"""

from __future__ import annotations

import bisect
import codecs
import contextlib
import itertools
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path

NAME, OLDER = "output.cast", "output.1.cast"
HALF_BYTES = 2 << 20
READ_BYTES = 256 << 10  # of the newest, for one screen
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_=>78])")


class Keeper:
    """Writes for one thread. A disk that is full ends the keeping, never the job."""

    def __init__(
        self, folder: Path | None, columns: int, rows: int,
        now: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._folder = folder
        self._size = (columns, rows)
        self._now = now
        self._file: FileIO | None = None
        self._began = 0
        self._written = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._guarded(self._begin)

    def put(self, data: bytes) -> None:
        """Adds a piece of output."""
        if self._file is not None:
            text = self._decoder.decode(data)
            self._guarded(lambda: self._write([round(self._now() - self._began, 3), "o", text]))

    def close(self) -> None:
        """Nothing more is kept."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except OSError:
            self.close()

    def _begin(self) -> None:
        if self._folder is None:
            return
        path = self._folder / NAME
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._file = FileIO(descriptor, "wb")
        self._began, self._written = int(self._now()), 0
        columns, rows = self._size
        self._write({"version": 2, "width": columns, "height": rows, "timestamp": self._began})

    def _write(self, row: object) -> None:
        file = self._file
        if file is None or self._folder is None:
            return
        if self._written > HALF_BYTES:
            file.close()
            (self._folder / NAME).replace(self._folder / OLDER)
            self._begin()
            file = self._file
            if file is None:
                return
        line = json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        self._written += file.write(line) or 0


def lines(folder: Path, until_ns: int) -> list[tuple[int, str]] | None:
    """The newest lines with the time at which each ended; None when nothing was kept."""
    paths = [path for path in (folder / OLDER, folder / NAME) if path.exists()]
    if not paths:
        return None
    pieces = [piece for path in paths for piece in _pieces(path) if piece[0] <= until_ns]
    ends = list(itertools.accumulate(len(text) for _, text in pieces))
    found, at = [], 0
    for line in "".join(text for _, text in pieces).split("\n"):
        at += len(line) + 1
        if seen := _seen(line):
            piece = min(bisect.bisect_left(ends, at), len(pieces) - 1)
            found.append((pieces[piece][0], seen))
    return found


def _pieces(path: Path) -> Iterator[tuple[int, str]]:
    """The pieces at the end of a file; lines that are none are passed over."""
    try:
        with path.open("rb") as file:
            began = json.loads(file.readline(1000))["timestamp"]
            file.seek(0, 2)
            start = max(0, file.tell() - READ_BYTES)
            file.seek(start)
            rows = file.read().split(b"\n")[1:]  # the head, or the rest of a cut line
    except (OSError, ValueError, KeyError, TypeError):
        return
    for row in rows:
        try:
            after, kind, text = json.loads(row)
            if kind == "o":
                yield int((began + after) * 1e9), str(text)
        except (ValueError, TypeError, OverflowError):
            continue


def _seen(line: str) -> str:
    """What stands in a line at its end: without colours, and only the last state of a bar."""
    parts = [part for part in _SEQUENCE.sub("", line).split("\r") if part.strip()]
    return parts[-1] if parts else ""
