"""`accelprof attach PID`: checks the process, makes the run's folder, and becomes its recorder.

There is no launcher: this very process is replaced by the agent (agent.py), which ends with the job
or by Ctrl-C. Nothing is changed in the job.
"""

from __future__ import annotations

import json
import os
import pwd
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from ..hooks import wire
from ..storage import library
from ..storage.live import SOCKET
from .environment import mask_command
from .errors import UserError
from .launch import (
    CONTROL_FD,
    RUN_SETTINGS,
    TERMINAL_FD,
    WITNESS_FD,
    RunOptions,
    agent_environment,
    make_folder,
    name_from,
    warn,
)

NOTHING_TO_RECORD = 3
ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}


def attach(pid: int, options: RunOptions, *, proc: Path = Path("/proc")) -> NoReturn:
    """Records the process `pid` and its children until they end. Raises UserError."""
    check(pid, proc)
    options.command = command_of(pid, proc)
    options.name = options.name or name_from(options.command)
    options.hooks, options.capture = False, "off"
    # From here on a Ctrl-C waits for the agent, so that it ends a whole run.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    folder = make_folder(options)
    if folder is None:  # a warning said why
        raise UserError("there is nowhere to record")
    _add_working_directory(folder / RUN_SETTINGS, proc / str(pid) / "cwd")
    if not options.quiet:
        warn(f"recording process {pid} ({options.name}) until it ends; Ctrl-C ends the recording")
    words = [sys.executable, "-P", "-m", "accelprof.profiler.agent", str(folder), str(pid)]
    _set_descriptors(folder)
    os.execve(sys.executable, [*words, str(time.time_ns()), "--attached"], agent_environment())


def check(pid: int, proc: Path = Path("/proc"), *, user: int | None = None) -> None:
    """Raises UserError unless `pid` is a living process of this user that nobody records."""
    folder = proc / str(pid)
    try:
        owner = folder.stat().st_uid
        state = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        raise UserError(f"no process {pid}", status=NOTHING_TO_RECORD) from None
    if state in "ZX":
        raise UserError(f"process {pid} has already ended", status=NOTHING_TO_RECORD)
    if pid in _own_line(proc):
        raise UserError(f"process {pid} runs this command: name the job's process")
    if (os.geteuid() if user is None else user) not in (0, owner):
        raise UserError(f"process {pid} belongs to {_user(owner)}: attach as that user or as root")
    if not command_of(pid, proc):
        raise UserError(f"process {pid} is part of the kernel")
    if run := recorded_by(pid, proc):
        raise UserError(f"process {pid} is recorded already: accelprof top {run}")


def command_of(pid: int, proc: Path = Path("/proc")) -> list[str]:
    """Its command line without secrets; empty when there is none."""
    try:
        data = (proc / str(pid) / "cmdline").read_bytes()[:65536].rstrip(b"\0")
    except OSError:
        return []
    return mask_command([os.fsdecode(word) for word in data.split(b"\0")]) if data else []


def recorded_by(pid: int, proc: Path = Path("/proc")) -> str | None:
    """The id of the run that records this process through hooks right now."""
    try:
        words = (proc / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return None
    prefix = f"{wire.ENV_SPOOL}=".encode()
    for word in words:
        if word.startswith(prefix):
            folder = Path(os.fsdecode(word.removeprefix(prefix))).parent
            return folder.name if (folder / SOCKET).exists() else None
    return None


def _own_line(proc: Path) -> set[int]:
    """This process and its ancestors: a shell that waits for us is no job."""
    found: set[int] = set()
    pid = os.getpid()
    while pid > 1 and pid not in found:
        found.add(pid)
        try:
            text = (proc / str(pid) / "stat").read_text(errors="replace")
            pid = int(text.rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
    return found


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _add_working_directory(file: Path, link: Path) -> None:
    settings = json.loads(file.read_text(errors="surrogateescape"))
    try:
        settings["cwd"] = str(link.readlink())
    except OSError:
        settings["cwd"] = ""
    text = json.dumps(settings)
    file.write_text(text, encoding="utf-8", errors="surrogateescape")


def _set_descriptors(folder: Path) -> None:
    """As the agent expects them: the terminal at 5, the run's log at 2, nothing at 3 and 4."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    log = os.open(folder / library.LOG, flags, 0o600)
    os.dup2(2, TERMINAL_FD)
    os.dup2(log, 2)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, CONTROL_FD, WITNESS_FD):
        os.dup2(null, descriptor)
