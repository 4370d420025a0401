"""A job in a pseudo-terminal of its own: `accelprof run` as its session's leader, and our end.

The launcher in it is the ordinary one; the job has a terminal as always, only that we are the
other side. Output is read as fast as it comes and never waits for whoever draws it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import sys
import termios
import threading
from collections.abc import Callable
from pathlib import Path

from ...profiler.launch import RunOptions, launch
from .kept import Keeper

CHUNK = 1 << 16
DRAIN_S = 0.5  # after the launcher's end: what the terminal still holds
TERM = "xterm-256color"  # what the emulator understands


class PtyJob:
    """The running launcher. `sink` gets every piece of output, on the reader's thread."""

    def __init__(self, pid: int, master: int, folder: Path | None, kept: Keeper) -> None:
        self.folder = folder  # of the run; None when it is not recorded
        self._kept = kept
        self.status: int | None = None
        self.ended = threading.Event()
        self.sink: Callable[[bytes], object] = lambda _: None
        self._pid = pid
        self._master = master
        self._reader = threading.Thread(target=self._read, name="pty", daemon=True)

    def start(self, sink: Callable[[bytes], object]) -> None:
        """Begins to read."""
        self.sink = sink
        self._reader.start()
        threading.Thread(target=self._wait, name="job", daemon=True).start()

    def write(self, data: bytes) -> None:
        """What the user typed. A job that does not read may have its terminal full: then less."""
        with contextlib.suppress(OSError):
            os.write(self._master, data)

    def resize(self, columns: int, rows: int) -> None:
        """The size that the job sees; it gets SIGWINCH when it is another one."""
        with contextlib.suppress(OSError):
            set_size(self._master, columns, rows)

    def signal(self, signo: int) -> None:
        """Passes a signal on to the launcher, which knows what to do with it."""
        if not self.ended.is_set():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signo)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, CHUNK)
            except OSError:  # nobody has the other side any more
                return
            if not data:
                return
            self._kept.put(data)
            self.sink(data)

    def _wait(self) -> None:
        _, status = os.waitpid(self._pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self._reader.join(DRAIN_S)  # a process left behind may hold the terminal for ever
        self.status = code if code >= 0 else 128 - code
        self.ended.set()


def set_size(descriptor: int, columns: int, rows: int) -> None:
    """Sets the window size of a terminal."""
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def spawn(options: RunOptions, columns: int, rows: int) -> PtyJob:
    """Starts `accelprof run` in a new terminal. Has to be called before any thread is started."""
    sys.stdout.flush()
    sys.stderr.flush()
    told_read, told_write = os.pipe()
    pid, master = pty.fork()
    if pid == 0:
        os.close(told_read)
        status = 1
        try:
            set_size(0, columns, rows)
            os.environ["TERM"] = TERM
            status = launch(options, lambda folder: _tell(told_write, folder))
        finally:
            os._exit(status)
    os.close(told_write)
    with os.fdopen(told_read, "rb") as told:
        folder = os.fsdecode(told.read())
    path = Path(folder) if folder else None
    return PtyJob(pid, master, path, Keeper(path, columns, rows))


def _tell(descriptor: int, folder: Path | None) -> None:
    """Where the run is recorded; the end of the pipe lets the other side go on."""
    with os.fdopen(descriptor, "wb") as pipe:
        pipe.write(os.fsencode(folder) if folder else b"")
