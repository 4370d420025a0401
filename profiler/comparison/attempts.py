"""Time spent adapting the code to a device: recorded runs from the first try to the first success.

Of the runs in the library that started the same program in the same folder on the same devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...storage import library
from ...storage.reader import BadRunFile, QueryError, open_run
from ..reports import figures
from .changes import git_stat
from .sides import Side

MOST_RUNS = 300


def attempt(side: Side) -> tuple[float | None, str]:
    """(seconds, how it is known)."""
    run = side.report.run
    program = _program(run.command)
    wanted = sorted(d.name for d in side.report.devices)
    folders = [folder for folder in library.list_runs()[:MOST_RUNS] if folder != side.folder]
    found = [row for row in map(_row, [*folders, side.folder]) if row]
    tries = [
        row for row in found
        if _program(row["command"]) == program and row["cwd"] == run.cwd
        and _devices(row) == wanted and row["started_ns"]
    ]  # fmt: skip
    tries.sort(key=lambda row: row["started_ns"])
    done = next((row for row in tries if row["state"] == "finished" and row["ended_ns"]), None)
    if done is None:
        return None, "no run of this program on this device has finished"
    before = tries.index(done)
    if before == 0:
        return None, "its first recorded run on this device finished: nothing was recorded before"
    lines = git_stat(run.cwd, tries[0]["git_commit"], done["git_commit"])
    seconds = (done["ended_ns"] - tries[0]["started_ns"]) / 1e9
    return (
        seconds,
        f"{figures.count(before + 1, 'try', 'tries')}, {lines or 'lines changed unknown'}",
    )


def _program(command: Sequence[str] | None) -> str:
    """The script or module that a command starts; interpreters differ from machine to machine."""
    words = list(command or ())
    for at, word in enumerate(words):
        if word == "-m" and at + 1 < len(words):
            return words[at + 1]
        if word.endswith(".py"):
            return Path(word).name
    return Path(words[0]).name if words else ""


def _devices(row: dict[str, Any]) -> list[str]:
    return sorted(str(name) for name in row["devices"] or ())


def _row(folder: Path) -> dict[str, Any] | None:
    try:
        with open_run(folder) as reader:
            rows = reader.dicts(
                "SELECT command, cwd, started_ns, ended_ns, state, git_commit, "
                "(SELECT list(name) FROM device) AS devices FROM run LIMIT 1"
            )
    except (BadRunFile, QueryError):
        return None
    return rows[0] if rows else None
