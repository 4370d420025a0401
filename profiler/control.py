"""The agent's two threads towards the launcher: what it says, and what reached the group."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Ending:
    """How the job ended: exit status as waitpid gives it (negative: signal), None: not known."""

    code: int | None
    ended_ns: int
    attached: bool = False  # it was not ours to wait for

    @property
    def state(self) -> str:
        """The run's state by the contract."""
        if self.code is None:
            return "finished" if self.attached else "lost"
        return "finished" if self.code == 0 else "failed" if self.code > 0 else "killed"

    @property
    def status(self) -> int | None:
        """As a shell gives it: 128 + N for signal N."""
        return self.code if self.code is None or self.code >= 0 else 128 - self.code


class Control:
    """What the launcher says, read on a thread of its own so that `hurry` is heard at any time."""

    def __init__(self, descriptor: int, job: int, on_hurry: Callable[[], None]) -> None:
        self.ending: Ending | None = None
        self.launcher_gone = False
        self.stopped = False  # the launcher stopped itself because the job stopped
        self.changed = threading.Event()
        self._descriptor = descriptor
        self._job = job
        self._on_hurry = on_hurry
        threading.Thread(target=self._listen, name="control", daemon=True).start()

    def _listen(self) -> None:
        unread = b""
        while data := self._read():
            *lines, unread = (unread + data).split(b"\n")
            for line in lines:
                self._hear(line.decode("ascii", "replace").split())
        self.launcher_gone = True
        if self.ending is None:
            _wait_for_end(self._job)
            self.ending = Ending(None, time.time_ns())
        self.changed.set()

    def _read(self) -> bytes:
        try:
            return os.read(self._descriptor, 4096)
        except OSError:
            return b""

    def _hear(self, words: list[str]) -> None:
        match words:
            case ["exit", code, ended_ns]:
                self.ending = Ending(int(code), int(ended_ns))
                self.changed.set()
            case ["stopped"]:
                self.stopped = True
            case ["continued"]:
                self.stopped = False
            case ["hurry"]:
                self._on_hurry()


class Attachment:
    """Instead of a launcher, for a job that ran already: it ends, or Ctrl-C ends the recording."""

    stopped = False

    def __init__(self, job: int, on_hurry: Callable[[], None]) -> None:
        self.ending: Ending | None = None
        self.interrupted = False
        self.changed = threading.Event()
        self._job = job
        self._on_hurry = on_hurry
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        for target, name in ((self._watch, "job"), (self._listen, "signals")):
            threading.Thread(target=target, name=name, daemon=True).start()

    def _watch(self) -> None:
        _wait_for_end(self._job)
        self._end(_status_of_zombie(self._job))

    def _listen(self) -> None:
        while True:
            signal.sigwait(_ENDING)
            if self.ending is not None:
                self._on_hurry()
            self.interrupted = True
            self._end(None)

    def _end(self, code: int | None) -> None:
        self.ending = self.ending or Ending(code, time.time_ns(), attached=True)
        self.changed.set()


_ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}


def _status_of_zombie(pid: int) -> int | None:
    """The exit status of a process that its own parent has not taken yet; mostly it has."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return os.waitstatus_to_exitcode(int(fields[49])) if fields[0] == "Z" else None
    except (OSError, ValueError, IndexError):
        return None


def _wait_for_end(pid: int) -> None:
    """Returns when a process that is not our child is gone."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except OSError:  # before Linux 5.3
        while Path(f"/proc/{pid}").exists():
            time.sleep(0.5)
        return
    import select

    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    waiting.poll()
    os.close(descriptor)


def bear_witness(descriptor: int) -> None:
    """Takes the signals sent to us by processes and tells the launcher, on a thread of its own."""
    taken = signal.pthread_sigmask(signal.SIG_BLOCK, ()) - {signal.SIGCHLD}

    def watch() -> None:
        while True:
            info = signal.sigwaitinfo(taken)
            if info.si_code <= 0:  # of a process; the terminal's need no witness
                line = f"{info.si_signo} {info.si_pid} {time.monotonic()}\n"
                with contextlib.suppress(OSError):
                    os.write(descriptor, line.encode())

    os.set_blocking(descriptor, False)
    threading.Thread(target=watch, name="witness", daemon=True).start()
