"""`accelprof top [RUN]`: the live screen of a run, a replay, or the host."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...storage import library
from ...storage.reader import BadRunFile, QueryError, RunReader, open_run
from ..daemon import control
from ..errors import UserError
from .opening import opened

if TYPE_CHECKING:
    from ...tui.model import RunChoice

_NEWEST = 50  # runs that are looked at for one that is alive


def top(
    run: Annotated[
        str | None, typer.Argument(help="Id, unique prefix, name, 'last' or path [default: alive].")
    ] = None,
) -> None:
    """Watch a running run live, or replay a finished one; without any, watch the host.

    The host is shown as its recorder sees it (`accelprof daemon`) where that runs.

    Example: accelprof top last
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError("top needs a terminal; `accelprof report` writes to a pipe or a file")
    from ...tui.app import TopApp

    if run is not None:
        app = TopApp(opened(run))
    else:
        alive = find_alive(library.list_runs()[:_NEWEST])
        single = open_run(Path(alive[0].folder)) if len(alive) == 1 else None
        app = TopApp(single if alive else _recorder(), alive)
    app.run()
    if app.return_code:
        raise typer.Exit(app.return_code)


def _recorder() -> RunReader | None:
    """The recording of the host's recorder while that runs."""
    found = control.running()
    try:
        return open_run(found.folder) if found else None
    except BadRunFile:
        return None


def find_alive(folders: list[Path]) -> list[RunChoice]:
    """The runs whose agent answers."""
    found = [_choice(folder) for folder in folders if (folder / "agent.sock").exists()]
    return [choice for choice in found if choice is not None]


def _choice(folder: Path) -> RunChoice | None:
    from ...tui.model import RunChoice

    try:
        with open_run(folder) as reader:
            rows = reader.dicts("SELECT id, name, command, started_ns FROM run LIMIT 1")
            if not rows or not reader.live:
                return None
    except (BadRunFile, QueryError):
        return None
    row = rows[0]
    command = " ".join(row["command"] or [])
    return RunChoice(str(folder), row["id"], row["name"] or "", command, row["started_ns"])
