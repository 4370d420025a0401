"""Signals from `kill`: to accelprof alone, to the group, to all; each process killed in turn."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from .conftest import ACCELPROF, Bench, children, state, wait_until

# Counts its signals in a file; ends on `stop`. Prints its pid when it is ready.
COUNT = (
    "import os, signal, sys, time\n"
    "def seen(signo, _):\n"
    "    with open('seen', 'a') as file: file.write(f'{signo}\\n')\n"
    "for s in (1, 2, 10, 12, 15): signal.signal(s, seen)\n"
    "print(os.getpid(), flush=True)\n"
    "while not os.path.exists('stop'): time.sleep(0.02)\n"
    "sys.exit(9)\n"
)


class Counting:
    """A job that counts its signals under accelprof."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        bench.script(COUNT)
        self.process = bench.start("run", "--quiet", sys.executable, "job.py")
        assert self.process.stdout
        self.job = int(self.process.stdout.readline())
        self.agent = bench.agent_of(self.process.pid, self.job)

    def wait_for_agent(self) -> None:
        """Returns when the agent is at work."""
        wait_until(
            lambda: self.bench.recorded and (self.bench.recorded[0] / "agent.sock").exists(),
            "the agent is at work",
        )

    def seen(self, count: int) -> list[int]:
        """The signals that the job got, once there are `count`."""
        path = self.bench.folder / "seen"
        wait_until(lambda: path.exists() and len(path.read_text().split()) >= count, "signals")
        return [int(line) for line in path.read_text().split()]

    def wait_for(self, signo: int, count: int) -> None:
        """Returns when the job got that signal so many times."""
        wait_until(lambda: self.seen(1).count(signo) >= count, f"{count} times signal {signo}")

    def end(self) -> int:
        """Lets the job end."""
        (self.bench.folder / "stop").touch()
        return self.process.wait(20)


@pytest.fixture
def counting(bench: Bench) -> Counting:
    return Counting(bench)


def test_signals_to_accelprof_alone_are_passed_on(counting: Counting) -> None:
    counting.wait_for_agent()
    for number, signo in enumerate((1, 2, 10, 12, 15), start=1):
        os.kill(counting.process.pid, signo)
        assert counting.seen(number)[-1] == signo
    assert counting.end() == 9
    assert counting.seen(5) == [1, 2, 10, 12, 15]


def test_a_signal_to_the_group_reaches_the_job_once(counting: Counting) -> None:
    counting.wait_for_agent()
    for number in (1, 2, 3):
        os.killpg(counting.process.pid, signal.SIGTERM)
        counting.wait_for(signal.SIGTERM, number)
        os.kill(counting.process.pid, signal.SIGUSR1)  # behind it in the launcher's queue
        counting.wait_for(signal.SIGUSR1, number)
    assert counting.end() == 9
    assert counting.seen(6) == [15, 10] * 3


def test_a_signal_to_the_group_while_the_agent_starts(counting: Counting) -> None:
    os.killpg(counting.process.pid, signal.SIGTERM)
    os.kill(counting.process.pid, signal.SIGUSR1)
    counting.wait_for(signal.SIGUSR1, 1)
    assert counting.end() == 9
    assert counting.seen(2).count(signal.SIGTERM) == 1


def test_a_signal_to_every_process(counting: Counting) -> None:
    """As SLURM's scancel does: one by one, to each process of the job."""
    counting.wait_for_agent()
    for pid in (counting.agent, counting.process.pid, counting.job):
        os.kill(pid, signal.SIGINT)
    os.kill(counting.process.pid, signal.SIGUSR1)
    counting.wait_for(signal.SIGUSR1, 1)
    assert counting.end() == 9
    assert counting.seen(2).count(signal.SIGINT) == 1
    assert counting.bench.row()["exit_status"] == 9


def test_a_job_has_all_the_time_it_needs_to_save(bench: Bench) -> None:
    bench.script(
        "import signal, sys, time\n"
        "def save(*_):\n"
        "    time.sleep(2)\n"
        "    open('checkpoint', 'w').close()\n"
        "    sys.exit(6)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "print('ready', flush=True)\n"
        "signal.pause()\n"
    )
    process = bench.start("run", "--quiet", sys.executable, "job.py")
    assert process.stdout and process.stdout.readline() == b"ready\n"
    process.terminate()
    assert process.wait(20) == 6
    assert (bench.folder / "checkpoint").exists()
    assert bench.row()["exit_status"] == 6


def test_the_agent_killed_is_started_once_more(counting: Counting) -> None:
    counting.wait_for_agent()
    first = counting.agent
    os.kill(first, signal.SIGKILL)
    second = wait_until(
        lambda: [p for p in children(counting.process.pid) if p not in (counting.job, first)],
        "another agent",
    )[0]
    wait_until(
        lambda: b"\0--again\0" in Path(f"/proc/{second}/cmdline").read_bytes(), "its command line"
    )
    assert counting.end() == 9
    row = counting.bench.row()
    assert (row["state"], row["exit_status"]) == ("failed", 9)
    assert row["quality"]["agent_restarted"]
    gaps = counting.bench.query("SELECT reason FROM gap WHERE source = 'agent'")
    assert len(gaps) == 1 and "started again" in gaps[0][0]
    doubled = "SELECT 1 FROM device GROUP BY device HAVING count(*) > 1"
    assert counting.bench.query(doubled) == []


def test_the_agent_killed_twice_leaves_the_job_alone(counting: Counting) -> None:
    for _ in range(2):
        agent = wait_until(
            lambda: [p for p in children(counting.process.pid) if p != counting.job], "an agent"
        )[0]
        os.kill(agent, signal.SIGKILL)
        wait_until(partial(_gone, agent), "it is reaped")
    assert counting.end() == 9
    assert counting.process.stderr
    text = counting.process.stderr.read().decode()
    assert text == "accelprof: the recorder stopped (signal 9); the job goes on unrecorded\n"


def _gone(pid: int) -> bool:
    return state(pid) is None


def test_the_launcher_killed_leaves_job_and_recording(counting: Counting) -> None:
    counting.wait_for_agent()
    counting.process.kill()
    counting.process.wait()
    assert state(counting.job) in ("S", "R")
    assert state(counting.agent) in ("S", "R")
    (counting.bench.folder / "stop").touch()
    wait_until(lambda: state(counting.job) in (None, "Z"), "the job ends")
    wait_until(lambda: state(counting.agent) in (None, "Z"), "the agent ends")
    row = counting.bench.row()
    assert (row["state"], row["exit_status"]) == ("lost", None)
    assert row["ended_ns"] > row["started_ns"]


def test_nothing_is_left_behind(counting: Counting) -> None:
    counting.wait_for_agent()
    pids = children(counting.process.pid)
    assert counting.end() == 9
    assert all(state(pid) is None for pid in pids)
    assert sorted(p.name for p in counting.bench.recorded[0].iterdir()) == ["log.txt", "run.duckdb"]


def test_a_parent_that_ignores_its_children(bench: Bench) -> None:
    """SIGCHLD ignored is inherited: the kernel would keep exit statuses from us."""
    show = "import signal as s, sys; print(s.getsignal(s.SIGCHLD) == s.SIG_IGN); sys.exit(8)"
    words = [*ACCELPROF, "run", "--quiet", sys.executable, "-c", show]
    done = subprocess.run(
        ["env", "--ignore-signal=CHLD", *words],
        check=False,
        env=bench.environ,
        capture_output=True,
        timeout=30,
    )
    assert done.returncode == 8, done.stderr
    assert done.stdout == b"True\n"
    missing = [*ACCELPROF, "run", "nosuch-command"]
    done = subprocess.run(
        ["env", "--ignore-signal=CHLD", *missing],
        check=False,
        env=bench.environ,
        capture_output=True,
    )
    assert done.returncode == 127


def test_sigint_ignored_stays_ignored(bench: Bench) -> None:
    """As a shell starts background jobs."""
    show = "import signal as s; print(s.getsignal(s.SIGINT) == s.SIG_IGN)"
    words = [*ACCELPROF, "run", "--quiet", sys.executable, "-c", show]
    done = subprocess.run(
        ["env", "--ignore-signal=INT", *words],
        check=False,
        env=bench.environ,
        capture_output=True,
        timeout=30,
    )
    assert done.stdout == b"True\n"
