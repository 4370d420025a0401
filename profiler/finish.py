"""After the job: captured operators, this machine's ceilings, the diagnosis, the verdict card."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING

from ..hooks import wire
from ..storage import library
from .launch import TERMINAL_FD

if TYPE_CHECKING:
    from .agent import Agent


def judge(agent: Agent) -> None:
    """Adds what only the end can tell to the run, and prints the card. Each part is fenced."""
    log = agent.log
    with log.fence("captures"):
        import_captures(agent)
    with log.fence("calibration"):
        calibrate(agent)
    with log.fence("diagnosis"):
        diagnose(agent)


def import_captures(agent: Agent) -> None:
    """Reads the operator captures of the spool into table `op`."""
    from .traces.kineto import import_captures as read

    for problem in read(agent.folder / library.SPOOL, agent.writer):
        agent.writer.append("gap", [(time.time_ns(), "capture", None, None, problem)])
    agent.writer.flush()


def calibrate(agent: Agent) -> None:
    """Puts the machine's ceilings into the run; measured (10 s at most) when not yet known.

    Only a run with captured operators on the CPU needs them; a GPU's come from its datasheet.
    """
    from .diagnosis.hardware import ON_A_DEVICE

    main = agent.main
    if main is None or agent.hurried:
        return
    with agent.writer.reader() as reader:
        if not reader.rows("SELECT 1 FROM op LIMIT 1") or reader.rows(ON_A_DEVICE):
            return
    from .accelerators import calibration

    process, torch = main.fact(wire.FACT_PROCESS), main.fact(wire.FACT_TORCH)
    python = process.get("executable") or sys.executable
    of = (library.home(), python, torch.get("version"), torch.get("threads"))
    known = calibration.usable(calibration.cache_path(*of))
    if calibration.due(calibration.cache_path(*of)) and not agent.settings["quiet"]:
        say("measuring what this machine can do, once, about 10 s (Ctrl-C leaves it out)")
    agent.calibrating = True
    try:
        found = known or calibration.ensure_quick(*of)
    finally:
        agent.calibrating = False
    if found is None:
        reason = "this machine's ceilings could not be measured"
        agent.writer.append("gap", [(time.time_ns(), "calibration", None, None, reason)])
        return
    agent.writer.set_meta(*calibration.to_meta(found))
    agent.writer.flush()


def diagnose(agent: Agent) -> None:
    """Judges the run, keeps the result, prints the card unless --quiet."""
    from . import diagnosis
    from .reports.summary import summary_row

    with agent.writer.reader() as reader:
        report = diagnosis.diagnose(reader)
    agent.writer.replace("window", diagnosis.window_rows(report, agent.started_ns))
    agent.writer.replace("finding", diagnosis.finding_rows(report))
    agent.writer.set_meta(*summary_row(report))
    agent.writer.flush()
    if agent.settings["quiet"] or agent.hurried:
        return
    from .reports.card import render_card, to_ascii

    colour = os.isatty(TERMINAL_FD) and not os.environ.get("NO_COLOR")
    card = render_card(report, colour, _width(), folder=agent.folder)
    if not _unicode():
        card = to_ascii(card)
    data = card.encode("utf-8", "replace")
    with contextlib.suppress(OSError):  # a terminal that is gone
        while data:
            data = data[os.write(TERMINAL_FD, data) :]


def say(message: str) -> None:
    """One line on the terminal's stderr."""
    with contextlib.suppress(OSError):
        os.write(TERMINAL_FD, f"accelprof: {message}\n".encode("utf-8", "replace"))


def _width() -> int:
    try:
        return min(os.get_terminal_size(TERMINAL_FD).columns, 100) or 80
    except OSError:
        return 80


def _unicode() -> bool:
    """The user's locale can show the card's blocks."""
    locale = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "")
    return not os.isatty(TERMINAL_FD) or "utf" in locale.lower()
