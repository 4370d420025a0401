"""stdout and stderr of a command: whoever reads them may go away, the disk may be full.

A reader that has seen enough (`| head -1`) ends the output, not the command: what it was asked to
do is done to its end, and its status is its own.
"""

from __future__ import annotations

import errno
import io
import os
import sys

from ..errors import UserError

STDIN, STDOUT, STDERR = 0, 1, 2


class _Lenient(io.FileIO):
    """A descriptor that turns into /dev/null when it takes no more."""

    def write(self, data: object) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            _to_null(self.fileno())
            if self.fileno() == STDOUT and error.errno != errno.EPIPE:
                raise UserError(f"cannot write the output: {error.strerror}") from None
            return memoryview(data).nbytes  # type: ignore[arg-type]


def prepare() -> None:
    """Puts lenient streams in place of Python's; a closed descriptor becomes /dev/null."""
    for descriptor in (STDIN, STDOUT, STDERR):
        try:
            os.fstat(descriptor)
        except OSError:  # else the next opened file would become our stdout
            _to_null(descriptor)
    sys.stdout = _stream(STDOUT, "replace")
    sys.stderr = _stream(STDERR, "backslashreplace")


def _stream(descriptor: int, errors: str) -> io.TextIOWrapper:
    old = sys.stdout if descriptor == STDOUT else sys.stderr
    encoding = getattr(old, "encoding", None) or "utf-8"
    raw = _Lenient(descriptor, "w", closefd=False)
    lines = descriptor == STDERR or raw.isatty()
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=encoding, errors=errors, line_buffering=lines
    )


def _to_null(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != descriptor:
        os.dup2(null, descriptor)
        os.close(null)
