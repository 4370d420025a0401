"""`accelprof top` as a user has it: a process in a terminal, its keys, what it leaves behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import recording
from terminal import WAIT_S, Terminal

LEFT, RIGHT, HOME, END = "\x1b[D", "\x1b[C", "\x1b[H", "\x1b[F"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with one finished run on a CPU and one on a GPU."""
    path = tmp_path_factory.mktemp("home")
    recording.record(path / "runs" / recording.RUN_ID)
    recording.record(
        path / "runs" / "20260112-091640-bert-cd34", gpu=True, name="bert",
        run_id="20260112-091640-bert-cd34",
    )  # fmt: skip
    return path


PANELS = ["verdict", "where the time goes", "phases over time", "step time"]
LISTS = ["devices", "processes (3)", "what to change"]


@pytest.mark.parametrize(
    ("run", "columns", "rows", "lists"),
    [("resnet", 80, 24, LISTS[2:]), ("bert", 100, 50, LISTS), ("bert", 250, 70, LISTS)],
)
def test_panels(home: Path, run: str, columns: int, rows: int, lists: list[str]) -> None:
    terminal = Terminal(["top", run], home, columns, rows)
    shown = terminal.until(lambda text: "INPUT-BOUND" in text, still=True)
    at = [shown.index(f"─{title}") for title in [*PANELS, *lists]]
    assert columns > 130 or at == sorted(at)
    for name in set(LISTS) - set(lists):
        assert f"─{name}" not in shown
    first, last = terminal.lines[0], terminal.lines[-1]
    assert first.split()[:3] == [run, "■", "finished"]
    assert "q quit" in last
    assert "IIIIIIII" in shown
    assert "0:00 ───" in shown
    terminal.press("q")
    assert terminal.end() == 0


def test_keys(home: Path) -> None:
    terminal = Terminal(["top", recording.RUN_ID[:15]], home)
    terminal.until(lambda text: "INPUT-BOUND" in text)
    terminal.press(HOME)
    terminal.until(lambda text: "0:00 of 1:" in text and "▲" in text)
    terminal.press(RIGHT + RIGHT)
    terminal.until(lambda text: "0:03 of 1:" in text and "paused" in text)
    terminal.press("p")
    terminal.until(lambda text: "worker 1" in text)
    terminal.press("p")
    terminal.until(lambda text: "cores" in text)
    terminal.press(" ")
    terminal.until(lambda text: "▶ 2x" in text)
    terminal.press(END)
    terminal.until(lambda text: " of 1:" not in text)
    for key, title in enumerate(("outliers", "loader and queue", "roofline", "ranks", "host"), 3):
        terminal.press(str(key))
        terminal.until(lambda text, title=title: f"─{title}" in text)
    terminal.press("8c")
    terminal.until(lambda text: "copied too-few-workers" in text)
    assert b"\x1b]52;c;Kip0b28tZmV3" in terminal.raw  # "**too-few"
    terminal.press("?")
    terminal.until(lambda text: "quit; the job goes on" in text)
    terminal.press("?")
    terminal.until(lambda text: "quit; the job goes on" not in text)
    terminal.press("\x03")
    assert terminal.end() == 0


def test_the_terminal_is_given_back(home: Path) -> None:
    terminal = Terminal(["top", "last"], home)
    terminal.until(lambda text: "INPUT-BOUND" in text)
    terminal.press("q")
    assert terminal.end() == 0
    for mode in (b"1049", b"1000", b"2004"):  # alternate screen, mouse, bracketed paste
        on, off = b"\x1b[?" + mode + b"h", b"\x1b[?" + mode + b"l"
        assert terminal.raw.rfind(off) >= terminal.raw.rfind(on), mode
    assert terminal.raw.rfind(b"\x1b[?25h") > terminal.raw.rfind(b"\x1b[?25l")


def test_a_small_terminal_does_not_break_it(home: Path) -> None:
    terminal = Terminal(["top", "last"], home, 30, 8)
    terminal.until(lambda text: "resnet" in text)
    terminal.press("q")
    assert terminal.end() == 0


def test_without_a_run_the_host_is_shown(tmp_path: Path) -> None:
    terminal = Terminal(["top"], tmp_path)
    terminal.until(lambda text: "No run is alive" in text and "cores" in text)
    terminal.press("q")
    assert terminal.end() == 0


def test_without_a_terminal_one_line(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "accelprof", "top", "last"], capture_output=True, text=True,
        stdin=subprocess.DEVNULL, env=os.environ | {"ACCELPROF_HOME": str(home)}, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("accelprof: top needs a terminal")
    assert done.stderr.count("\n") == 1


class Tmux:
    """A private tmux server with one window."""

    def __init__(self, socket: Path, command: str, environment: dict[str, str]) -> None:
        self._base = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        self._environment = environment
        self("new-session", "-d", "-x", "100", "-y", "30", command)

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            [*self._base, *words], capture_output=True, text=True, env=self._environment, check=True
        )
        return done.stdout

    def until(self, text: str) -> str:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            shown = self("capture-pane", "-p")
            if text in shown:
                return shown
            time.sleep(0.1)  # tmux has no event for a changed pane
        raise AssertionError(f"{text!r} never came:\n{shown}")


@pytest.fixture
def tmux(home: Path, tmp_path: Path) -> Iterator[Tmux]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    environment = os.environ | {"ACCELPROF_HOME": str(home), "PS1": "shell$ ", "LANG": "C.UTF-8"}
    found = Tmux(tmp_path / "tmux", "bash --norc --noprofile", environment)
    yield found
    found("kill-server")


def test_in_tmux(tmux: Tmux) -> None:
    tmux("send-keys", "echo before; ", sys.executable, " -m accelprof top resnet", "Enter")
    shown = tmux.until("INPUT-BOUND")
    assert "too-few-workers" in shown
    assert "what to change" in shown
    tmux("send-keys", "Home")
    tmux.until("0:00 of 1:")
    tmux("send-keys", "8")
    tmux.until("enter shows it under input")
    tmux("send-keys", "c")
    tmux.until("copied too-few-workers")
    deadline = time.monotonic() + WAIT_S
    while not tmux("list-buffers") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert tmux("show-buffer").startswith("**too-few-workers** (critical")
    tmux("send-keys", "q")
    shown = tmux.until("before")
    tmux("send-keys", "echo status=$?", "Enter")
    shown = tmux.until("status=0")
    assert "INPUT-BOUND" not in shown  # the alternate screen is gone
    tmux("send-keys", "stty -a | grep -c ' echo '", "Enter")
    tmux.until("\n1\n")
