"""The launcher while the job lives: signals, stops, and the end, as if accelprof were not there.

All signals are blocked and taken one by one with sigwaitinfo. The job shares our process group, so
what the terminal sends has reached it already. What `kill` sends to us alone is passed on; what it
sent to the whole group is not, or the job would get it twice. The difference shows in the agent:
it sits in the same group with all signals blocked and bears witness to those it got, too.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from .launch import AgentProcess, warn

# A delivery to a whole group takes microseconds, the agent's report of it up to 100 ms on a busy
# machine: with both cores taken, 50 ms was seen to be too short.
WITNESS_WAIT_S = 0.25
WITNESS_KEEP_S = 1.0
FINISH_LIMIT_S = 60.0  # the agent's work after the job's end: mostly 2 s, 12 with a calibration
HURRY_LIMIT_S = 3.0
_ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}


class Starter(Protocol):
    """Starts the run's agent."""

    def start(self, *, again: bool = False) -> AgentProcess | None: ...


class Supervisor:
    """Watches over one job and its agent until both are gone."""

    def __init__(
        self, job: int, starter: Starter | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._job = job
        self._starter = starter
        self._clock = clock
        self._agent = starter.start() if starter else None
        self._restarted = False
        self._status: int | None = None  # of the job, as a shell gives it
        self._deadline: float | None = None  # for the agent, once the job is gone
        self._hurried = False
        self._reports: list[tuple[int, int, float]] = []  # signal, sender's pid, when
        self._unread = b""

    def run(self) -> int:
        """The job's exit status, 128 + N for signal N."""
        signals = signal.valid_signals()
        self._reap()  # the job may have ended before SIGCHLD could be waited for
        while self._status is None or self._agent is not None:
            if self._deadline is None:
                info = signal.sigwaitinfo(signals)
            else:
                left = max(0.0, self._deadline - self._clock())
                arrived = signal.sigtimedwait(signals, left)
                if arrived is None:
                    self._give_up_on_agent()
                    continue
                info = arrived
            if info.si_signo == signal.SIGCHLD:
                self._reap()
            elif info.si_pid == os.getpid() and info.si_code <= 0:
                pass  # our own SIGPIPE, or the SIGSTOP's echo
            elif self._status is None:
                self._while_running(info)
            else:
                self._while_finishing(info.si_signo)
        return self._status

    # -- children ----------------------------------------------------------------------------

    def _reap(self) -> None:
        """Takes note of every child that ended or stopped; as PID 1 also of adopted ones."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                if pid == self._job:
                    self._stop_with_job(os.WSTOPSIG(status))
            elif pid == self._job:
                self._job_ended(status)
            elif self._agent and pid == self._agent.pid:
                self._agent_ended(status)

    def _job_ended(self, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        self._status = code if code >= 0 else 128 - code
        self._deadline = self._clock() + FINISH_LIMIT_S
        if self._agent:
            self._agent.tell(f"exit {code} {time.time_ns()}")

    def _agent_ended(self, status: int) -> None:
        assert self._agent is not None
        self._agent.close()
        self._agent = None
        code = os.waitstatus_to_exitcode(status)
        if self._status is not None:
            if code and not self._hurried:
                warn(f"the recorder failed while finishing ({_how(code)}); see its log.txt")
            return
        if not self._restarted and self._starter:
            self._restarted = True
            self._agent = self._starter.start(again=True)
        if self._agent is None:
            warn(f"the recorder stopped ({_how(code)}); the job goes on unrecorded")

    def _stop_with_job(self, signo: int) -> None:
        """The job stopped (Ctrl-Z): stop as well, so that the shell gets its prompt back.

        When later the job alone is continued, the agent wakes us; nobody else would.
        """
        if not _stopped(self._job) or (self._agent is None and signo == signal.SIGSTOP):
            return
        if self._agent:
            self._agent.tell("stopped")
        _stop(signo)
        if self._agent:
            self._agent.tell("continued")

    # -- signals -----------------------------------------------------------------------------

    def _while_running(self, info: signal.struct_siginfo) -> None:
        if info.si_code > 0 or self._reached_all(info.si_signo, info.si_pid):
            return  # from the terminal, or to the whole group: the job has it
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._job, info.si_signo)

    def _reached_all(self, signo: int, sender: int) -> bool:
        """The agent got the same signal of the same sender."""
        if self._agent is None:
            return False
        deadline = self._clock() + WITNESS_WAIT_S
        while True:
            self._read_reports()
            for report in self._reports:
                if report[:2] == (signo, sender):
                    self._reports.remove(report)
                    return True
            left = deadline - self._clock()
            if left <= 0:
                # An agent that still starts up cannot report, but the kernel shows what waits.
                return _pending(self._agent.pid, signo)
            select.select([self._agent.witness], [], [], min(left, 0.01))
            # At its end of file (the agent died) this does not wait; so short it does no harm.

    def _read_reports(self) -> None:
        assert self._agent is not None
        with contextlib.suppress(BlockingIOError):
            self._unread += os.read(self._agent.witness, 65536)
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):
                signo, sender, at_s = line.split()
                self._reports.append((int(signo), int(sender), float(at_s)))
        now = self._clock()
        self._reports = [r for r in self._reports if now - r[2] < WITNESS_KEEP_S]

    def _while_finishing(self, signo: int) -> None:
        """The job is gone. Ctrl-C: finish at once; a second one: without it."""
        if signo == signal.SIGTSTP:
            _stop(signo)
        if signo not in _ENDING or self._agent is None:
            return
        if self._hurried:
            self._kill_agent()
        else:
            self._hurried = True
            self._agent.tell("hurry")
            self._deadline = self._clock() + HURRY_LIMIT_S

    def _give_up_on_agent(self) -> None:
        if not self._hurried:
            warn(f"the recorder did not finish within {FINISH_LIMIT_S:g} s and was ended")
        self._hurried = True
        self._kill_agent()
        self._deadline = self._clock() + HURRY_LIMIT_S

    def _kill_agent(self) -> None:
        """With what it started, a calibration for instance."""
        if self._agent is None:
            return
        for pid in [*_children(self._agent.pid), self._agent.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _stop(signo: int) -> None:
    """Stops this process by the same signal, which is what the shell shows; returns on SIGCONT."""
    os.kill(os.getpid(), signo)
    if signo != signal.SIGSTOP:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signo})
        signal.pthread_sigmask(signal.SIG_BLOCK, {signo})


def just_wait(job: int) -> int:
    """The job's status and nothing else."""
    while True:
        try:
            pid, status = os.waitpid(job, 0)
        except ChildProcessError:  # already reaped; its status went down with the bug
            return 0
        if pid == job:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except (OSError, ValueError):
        return []


def _how(code: int) -> str:
    return f"status {code}" if code >= 0 else f"signal {-code}"


def _stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (OSError, IndexError):
        return False


def _pending(pid: int, signo: int) -> bool:
    """A blocked signal waits in that process."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    for line in status.splitlines():
        if line.startswith("ShdPnd:"):
            return bool(int(line.split()[1], 16) >> (signo - 1) & 1)
    return False
