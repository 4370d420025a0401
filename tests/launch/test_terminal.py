"""In a real terminal: Ctrl-C, Ctrl-Z, size, and what the job sees of it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pexpect  # type: ignore[import-untyped]
import pytest

from .conftest import ACCELPROF, Bench, state, wait_until

SHOW = (
    "import os, sys\n"
    "print([os.isatty(fd) for fd in (0, 1, 2)], os.get_terminal_size(), sys.stdout.fileno())\n"
    "print(os.tcgetpgrp(0) == os.getpgrp(), os.ttyname(0) == os.ttyname(2))\n"
)


def ended(child: pexpect.spawn) -> int:
    """Reads to the end; the exit status as a shell gives it."""
    child.expect(pexpect.EOF)
    child.close()
    return int(child.exitstatus if child.exitstatus is not None else 128 + child.signalstatus)


def test_the_job_has_the_terminal(bench: Bench) -> None:
    script = bench.script(SHOW)
    child = bench.terminal("run", "--quiet", sys.executable, script, size=(31, 117))
    child.expect(pexpect.EOF)
    plain = pexpect.spawn(
        sys.executable, [str(script)], dimensions=(31, 117), encoding="utf-8", timeout=30
    )
    plain.expect(pexpect.EOF)
    assert child.before == plain.before
    assert "columns=117, lines=31" in child.before


def test_a_new_size_reaches_the_job_once(bench: Bench) -> None:
    script = bench.script(
        "import os, signal\n"
        "seen = []\n"
        "signal.signal(signal.SIGWINCH, lambda *_: seen.append(os.get_terminal_size().columns))\n"
        "print('ready', flush=True)\n"
        "input()\n"
        "print('seen', seen)\n"
    )
    child = bench.terminal("run", "--quiet", sys.executable, script)
    child.expect("ready")
    child.setwinsize(24, 99)
    child.sendline("")
    child.expect(r"seen \[99\]")
    assert ended(child) == 0


def test_ctrl_c_reaches_the_job_once_and_the_status_is_its_own(bench: Bench) -> None:
    script = bench.script(
        "import signal, time\n"
        "try:\n"
        "    print('ready', flush=True)\n"
        "    signal.pause()\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
        "signal.signal(signal.SIGINT, lambda *_: print('again', flush=True))\n"
        "time.sleep(0.3)\n"
        "raise SystemExit(4)\n"
    )
    child = bench.terminal("run", "--quiet", sys.executable, script)
    child.expect("ready")
    child.sendintr()
    child.expect("interrupted")
    assert ended(child) == 4
    assert "again" not in child.before
    assert bench.row()["exit_status"] == 4


def test_ctrl_c_without_a_handler(bench: Bench) -> None:
    child = bench.terminal("run", "--quiet", "sleep", "60")
    job = wait_until(lambda: _sleeping(child.pid), "the job runs")
    child.sendintr()
    assert ended(child) == 128 + signal.SIGINT
    assert state(job) is None
    assert bench.row()["state"] == "killed"


def _sleeping(launcher: int) -> int | None:
    for path in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        if Path(f"/proc/{path}/comm").read_text() == "sleep\n":
            return int(path)
    return None


def test_ctrl_z_and_fg_in_a_shell(bench: Bench) -> None:
    """The shell gets its prompt back, the job goes on with fg, nobody is left stopped."""
    script = bench.script(
        "import time\n"
        "for i in range(1000):\n"
        "    print('tick', i, flush=True)\n"
        "    time.sleep(0.05)\n"
        "    if __import__('os').path.exists('stop'): break\n"
    )
    shell = pexpect.spawn(
        "bash", ["--norc", "--noprofile", "-i"], env=bench.environ | {"PS1": "PROMPT> "},
        cwd=str(bench.folder), encoding="utf-8", timeout=30,
    )  # fmt: skip
    shell.expect("PROMPT> ")
    shell.sendline(f"{' '.join(ACCELPROF)} run --quiet {sys.executable} {script}; echo status=$?")
    shell.expect("tick 5")
    shell.send("\x1a")
    shell.expect("Stopped")
    shell.expect(rf"status={128 + signal.SIGTSTP}")
    shell.expect("PROMPT> ")
    shell.sendline("jobs -p")
    shell.expect(r"(\d+)\r\n")
    launcher = int(shell.match[1])
    assert state(launcher) == "T"
    shell.sendline("fg")
    shell.expect("tick")
    (bench.folder / "stop").touch()
    shell.expect("PROMPT> ")
    wait_until(lambda: state(launcher) is None, "the launcher is gone")
    shell.sendline("exit")
    shell.expect(pexpect.EOF)
    assert bench.row()["state"] == "finished"


def test_a_job_continued_alone_wakes_the_launcher(bench: Bench) -> None:
    child = bench.terminal("run", "--quiet", "sleep", "3")
    job = wait_until(lambda: _sleeping(child.pid), "the job runs")
    wait_until(lambda: bench.recorded and (bench.recorded[0] / "agent.sock").exists(), "the agent")
    os.kill(job, signal.SIGSTOP)  # Ctrl-Z's signal is void without a shell above
    wait_until(lambda: state(child.pid) == "T", "the launcher stops, too")
    os.kill(job, signal.SIGCONT)
    wait_until(lambda: state(child.pid) != "T", "the launcher is awake")
    assert ended(child) == 0


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_after_the_job_ends_the_finishing_agent(bench: Bench, presses: int) -> None:
    script = bench.script("print('ready', flush=True)\ninput()\nprint('over', flush=True)\n")
    child = bench.terminal("run", sys.executable, script)
    child.expect("ready")
    job = wait_until(lambda: _python(child.pid, script), "the job")
    agent = bench.agent_of(child.pid, job)
    wait_until(lambda: bench.recorded and (bench.recorded[0] / "agent.sock").exists(), "the agent")
    os.kill(agent, signal.SIGSTOP)  # as hung as can be
    child.sendline("")
    child.expect("over")
    wait_until(lambda: state(job) is None, "the job is reaped")
    for _ in range(presses):
        child.sendintr()
    assert ended(child) == 0
    assert state(agent) is None


def _python(launcher: int, script: Path) -> int | None:
    for pid in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        if os.fsencode(script) in Path(f"/proc/{pid}/cmdline").read_bytes():
            return int(pid)
    return None
