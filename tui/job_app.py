"""`accelprof run --tui`: the job in a terminal of its own, the views of its run around it.

The exit status is the job's. Signals that reach this process go on to it. When the view is left
while the job lives, the job's terminal and the user's are joined until it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import signal
import sys
import termios
import tty
from typing import Any

from rich.console import Console
from rich.text import Text
from textual.screen import Screen

from ..profiler.launch import RunOptions
from .app import TopApp
from .job_feed import JobFeed
from .pty.emulator import Emulator
from .pty.job import PtyJob, spawn
from .screens.run import RunScreen
from .views.job import JobView

PASSED_ON = (
    signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
LOOK_S = 0.1
# The thread that reads the job's output gets its turn this soon: a terminal gives 4 KiB a read
SWITCH_S = 5e-4
OWN_LINES = 4  # of a screen that are not the job's: header, views, rule, footer


class JobApp(TopApp):
    """`top` with the job's terminal in it."""

    TITLE = "accelprof run"

    def __init__(self, job: PtyJob, columns: int, rows: int) -> None:
        super().__init__()
        self._job = job
        self.view = JobView(job, columns, rows)
        self._leaves = False  # somebody ended this process: the view ends with the job
        self._told = False

    def get_default_screen(self) -> Screen[None]:
        return RunScreen(JobFeed(self._job.folder), job=self.view)

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for signo in PASSED_ON:
            loop.add_signal_handler(signo, self._pass_on, signo)
        self.set_interval(LOOK_S, self._look)

    def _pass_on(self, signo: int) -> None:
        self._leaves = self._leaves or signo in ENDING
        self._job.signal(signo)

    def _look(self) -> None:
        if not self._job.ended.is_set() or self._told:
            return
        self._told = True
        self.view.terminal.job_ended()
        self.refresh_bindings()
        if self._leaves:
            self.exit()
        else:
            self.notify(f"the job ended with status {self._job.status}; q leaves")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While the job has the keys, ours have no meaning."""
        return not self.view.terminal.takes_keys

    async def action_interrupt(self) -> None:
        """Ctrl-C is the job's while it lives."""
        if self._job.status is None:
            self._job.write(b"\x03")
        else:
            self.exit()


def run(options: RunOptions) -> int:
    """Runs the job to its end; its status."""
    size = shutil.get_terminal_size()
    columns, rows = size.columns, max(2, size.lines - OWN_LINES)
    job = spawn(options, columns, rows)
    sys.setswitchinterval(SWITCH_S)
    app = JobApp(job, columns, rows)
    app.run()
    _print(app.view.terminal.emulator)
    if job.status is None:
        _join(job)
    job.ended.wait()
    return job.status or 0


def _print(emulator: Emulator) -> None:
    """What stood on the job's screen, for the terminal that the user is back in."""
    console = Console(highlight=False, width=emulator.size[0])
    for at in range(emulator.last + 1):
        line = Text.assemble(*((part.text, part.style or "") for part in emulator.line(at)))
        line.rstrip()
        console.print(line, soft_wrap=True)


def _join(job: PtyJob) -> None:
    """The user's terminal becomes the job's until it ends."""
    size = os.get_terminal_size()
    job.resize(size.columns, size.lines)
    _write(f"accelprof: the job goes on here; accelprof top {_name(job)} shows it\r\n".encode())
    before = termios.tcgetattr(0)
    handlers: dict[int, Any] = {
        signo: signal.signal(signo, lambda number, _: job.signal(number)) for signo in PASSED_ON
    }
    handlers[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, lambda *_: _resized(job))
    try:
        tty.setraw(0)
        job.sink = _write
        while not job.ended.is_set():
            if select.select([0], [], [], LOOK_S)[0]:
                job.write(os.read(0, 4096))
    except OSError:  # the terminal is gone; the job gets SIGHUP when ours closes
        pass
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, before)
        for signo, handler in handlers.items():
            signal.signal(signo, handler)


def _resized(job: PtyJob) -> None:
    with contextlib.suppress(OSError):
        size = os.get_terminal_size()
        job.resize(size.columns, size.lines)


def _name(job: PtyJob) -> str:
    return job.folder.name if job.folder else "last"


def _write(data: bytes) -> None:
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(sys.__stdout__.fileno() if sys.__stdout__ else 1, data) :]
