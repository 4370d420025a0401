"""Output that waits to be drawn: bounded, so that a flood neither stalls the job nor us."""

from __future__ import annotations

import re
import threading
from collections import deque

KEPT_BYTES = 1 << 16  # several screens; more than that nobody could have read
KEPT_SEQUENCES = 64
# Colours and modes that were set in what is left out stay in force
_SEQUENCE = re.compile(rb"\x1b\[[?\d;]*[hlm]")


class Backlog:
    """Written by the reader's thread, read by the screen's."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._lock = threading.Lock()
        self._sequences: list[bytes] = []
        self.skipped_bytes = 0

    def put(self, data: bytes) -> None:
        """Adds output; what is too old goes."""
        with self._lock:
            self._chunks.append(data)
            self._size += len(data)
            dropped = []
            while self._size > KEPT_BYTES and len(self._chunks) > 1:
                dropped.append(self._chunks.popleft())
                self._size -= len(dropped[-1])
            if dropped:
                self._leave_out(b"".join(dropped))

    def _leave_out(self, data: bytes) -> None:
        """Remembers what it changed, and goes on at the beginning of a line."""
        head, newline, tail = self._chunks[0].partition(b"\n")
        if newline:
            self._chunks[0] = tail
            self._size -= len(head) + 1
            data += head + newline
        found = _SEQUENCE.findall(data[-KEPT_BYTES:])
        self._sequences = [*self._sequences, *found][-KEPT_SEQUENCES:]
        self.skipped_bytes += len(data)

    def take(self, most: int) -> bytes:
        """Up to so many bytes of output, the oldest first."""
        with self._lock:
            taken = b"".join(self._sequences)
            self._sequences = []
            while self._chunks and len(taken) < most:
                chunk = self._chunks.popleft()
                piece, rest = chunk[: most - len(taken)], chunk[most - len(taken) :]
                if rest:
                    self._chunks.appendleft(rest)
                taken += piece
                self._size -= len(piece)
            return taken
