"""`accelprof run --tui` as a user has it: the job's terminal, its keys, its end, what is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from terminal import Terminal

from accelprof.tui.pty import keys
from accelprof.tui.pty.backlog import KEPT_BYTES, Backlog
from accelprof.tui.pty.emulator import Emulator

Start = Callable[..., Terminal]
LEAVE = "\x1d"  # ctrl+]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    def run(script: str, *options: str) -> Terminal:
        path = tmp_path / "job.py"
        path.write_text(script)
        words = ["run", "--tui", "--quiet", "--name", "demo", *options, sys.executable, str(path)]
        return Terminal(words, tmp_path, 100, 30)

    return run


def given_back(terminal: Terminal) -> bool:
    """Alternate screen and mouse are off, the cursor is there, lines are edited again."""
    raw = terminal.raw
    off = all(
        raw.rfind(b"\x1b[?" + mode + b"l") >= raw.rfind(b"\x1b[?" + mode + b"h")
        for mode in (b"1049", b"1000", b"2004")
    )
    return off and raw.rfind(b"\x1b[?25h") > raw.rfind(b"\x1b[?25l")


def test_output_input_and_the_debugger(start: Start) -> None:
    terminal = start(
        "import os, sys\n"
        "print('\\x1b[32mgreen\\x1b[0m', os.get_terminal_size(), os.isatty(0), flush=True)\n"
        "for at in range(5): print(f'\\rbar {at}', end='', flush=True)\n"
        "print()\n"
        "name = input('name? ')\n"
        "breakpoint()\n"
        "sys.exit(7)\n"
    )
    shown = terminal.until(lambda text: "name?" in text)
    assert "green os.terminal_size(columns=100, lines=26) True" in shown
    assert "bar 4" in shown
    assert "bar 3" not in shown
    row = next(at for at, line in enumerate(terminal.lines) if "green" in line)
    red, green, blue = bytes.fromhex(terminal.screen.buffer[row][0].fg)
    assert green > max(red, blue)  # the theme has its own green
    terminal.press("ada\r")
    terminal.until(lambda text: "(Pdb)" in text)
    terminal.press("p name * 2\r")
    terminal.until(lambda text: "'adaada'" in text)
    terminal.press(LEAVE)
    terminal.until(lambda text: "─verdict" in text)
    terminal.press("9")
    terminal.until(lambda text: "─log" in text and "bar 4" in text)
    terminal.press("0")
    terminal.until(lambda text: "(Pdb)" in text)
    terminal.press("c\r")
    terminal.until(lambda text: "ended with status 7" in text)
    terminal.press("q")
    assert terminal.end() == 7
    assert given_back(terminal)
    left = terminal.raw[terminal.raw.rfind(b"\x1b[?1049l") :]
    assert b"'adaada'" in left  # what the job's screen held is on the user's


@pytest.mark.parametrize(
    ("way", "status"),
    [("os.kill(os.getpid(), 9)", 137), ("os.abort()", 134)],
    ids=["kill", "abort"],
)
def test_a_job_that_dies(start: Start, way: str, status: int) -> None:
    terminal = start(f"import os\nprint('\\x1b[?1049h\\x1b[?25lmess', flush=True)\n{way}\n")
    terminal.until(lambda text: f"ended with status {status}" in text)
    terminal.press("q")
    assert terminal.end() == status
    assert given_back(terminal)


def test_a_signal_is_passed_on_and_ends_the_view(start: Start) -> None:
    terminal = start(
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n"
        "print('ready', flush=True)\n"
        "signal.pause()\n"
    )
    terminal.until(lambda text: "ready" in text)
    os.kill(terminal.child.pid, signal.SIGTERM)
    assert terminal.end() == 3
    assert given_back(terminal)


def test_left_while_it_runs_the_job_has_the_terminal(start: Start) -> None:
    terminal = start("print('one', flush=True)\nprint('got', input())\ninput()\n")
    terminal.until(lambda text: "one" in text)
    terminal.press(LEAVE)
    terminal.until(lambda text: "─verdict" in text)
    terminal.press("q")
    terminal.until(lambda text: "the job goes on here" in text)
    terminal.press("two\r")
    terminal.until(lambda text: "got two" in text)
    terminal.press("\x03")
    assert terminal.end() == 130
    assert b"KeyboardInterrupt" in terminal.raw


def test_a_flood_does_not_stall_the_job(start: Start) -> None:
    terminal = start(
        "import sys, time\n"
        "line = 'x' * 98 + '\\n'\n"
        "begun = time.monotonic()\n"
        "for _ in range(1000): sys.stdout.write(line * 200)\n"  # 20 MB
        "sys.stdout.flush()\n"
        "print('took', time.monotonic() - begun)\n"
        "print('\\x1b[35mlast')\n"
    )
    shown = terminal.until(lambda text: "ended with status 0" in text and "last" in text)
    assert "MB came too fast to draw" in shown
    terminal.press("q")
    assert terminal.end() == 0


def test_without_a_terminal_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "accelprof", "run", "--tui", "true"], capture_output=True, text=True,
        stdin=subprocess.DEVNULL, env=os.environ | {"ACCELPROF_HOME": str(tmp_path)}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("accelprof: --tui needs a terminal")
    assert done.stderr.count("\n") == 1


# -- the pieces --------------------------------------------------------------------------------


def test_the_backlog_keeps_the_newest_and_the_colour() -> None:
    backlog = Backlog()
    backlog.put(b"\x1b[31mold\n")
    for at in range(3000):
        backlog.put(b"%05d %s\n" % (at, b"y" * 60))
    taken = backlog.take(1 << 30)
    assert taken.startswith(b"\x1b[31m")
    assert taken.endswith(b"02999 " + b"y" * 60 + b"\n")
    assert len(taken) <= KEPT_BYTES + 100
    assert taken[5:10].isdigit()  # from the beginning of a line
    assert backlog.skipped_bytes + len(taken) - 5 == 9 + 3000 * 67
    assert backlog.take(10) == b""


def test_the_emulator_keeps_lines_and_answers() -> None:
    answers: list[bytes] = []
    emulator = Emulator(20, 3, answers.append)
    emulator.feed(b"one\r\ntwo\r\nthree\r\nfour\x1b[6n\x1b[>1u")
    assert [emulator.text(at) for at in range(-1, 3)] == ["one", "two", "three", "four"]
    assert answers == [b"\x1b[3;5R"]
    emulator.feed(b"\xff\xfe\x1b[999999999999mok")
    assert "ok" in emulator.text(2)
    emulator.resize(10, 2)
    assert emulator.size == (10, 2)


@pytest.mark.parametrize(
    ("key", "character", "sent"),
    [("a", "a", b"a"), ("A", "A", b"A"), ("enter", "\r", b"\r"), ("ctrl+c", "\x03", b"\x03"),
     ("backspace", "\x7f", b"\x7f"), ("up", None, b"\x1b[A"), ("ctrl+left", None, b"\x1b[1;5D"),
     ("alt+b", None, b"\x1bb"), ("f5", None, b"\x1b[15~"), ("é", "é", "é".encode()),
     ("shift+tab", None, b"\x1b[Z"), ("f30", None, None)],
)  # fmt: skip
def test_keys(key: str, character: str | None, sent: bytes | None) -> None:
    assert keys.to_bytes(key, character, application_cursor=False) == sent


def test_application_cursor_keys() -> None:
    assert keys.to_bytes("up", None, application_cursor=True) == b"\x1bOA"
