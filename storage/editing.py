"""Changes to finished runs: tags, the note, taking one away. Never to one being recorded."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import duckdb

from .library import RUN_FILE, SETTINGS, name_of
from .reader import BadRunFile, open_run
from .writer import RunWriter

Result = TypeVar("Result")
WAIT_S = 5.0


class NotEditable(Exception):
    """The run is being recorded, or is not ours to change. One line."""


def set_tags(run: Path, change: Mapping[str, str | None]) -> dict[str, str]:
    """Sets tags, takes away those that are None; all tags the run has then."""

    def changed(writer: RunWriter) -> dict[str, str]:
        with writer.reader() as reader:
            rows = reader.rows("SELECT tags FROM run LIMIT 1")
        tags = dict(rows[0][0] or {}) if rows else {}
        tags |= {key: value for key, value in change.items() if value is not None}
        for key in (key for key, value in change.items() if value is None):
            tags.pop(key, None)
        writer.update_run(tags=tags)
        return tags

    return _edit(run, changed)


def set_note(run: Path, text: str | None) -> None:
    """Sets the run's note, or takes it away."""
    _edit(run, lambda writer: writer.update_run(note=text))


def _edit(run: Path, body: Callable[[RunWriter], Result]) -> Result:
    file = run / RUN_FILE if run.is_dir() else run
    refuse_live(run)
    writer = _writer(file)
    result = body(writer)
    writer.close()
    if writer.trouble:
        raise NotEditable(f"{file}: {writer.trouble}")
    return result


def _writer(file: Path) -> RunWriter:
    """Waits a little for another edit or a report that has the file."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return RunWriter(file)
        except (duckdb.Error, OSError) as error:
            held = "Could not set lock" in str(error)
            if not held or time.monotonic() > deadline:
                reason = "another process has it open" if held else str(error).splitlines()[0]
                raise NotEditable(f"{file}: {reason}") from None
        time.sleep(0.05)


def remove(folder: Path) -> None:
    """Deletes a run's folder with all that is in it."""
    refuse_foreign(folder)
    refuse_live(folder)
    # The file goes first: what is left after an interruption is no run any more.
    with contextlib.suppress(FileNotFoundError):
        (folder / RUN_FILE).unlink()
    shutil.rmtree(folder)


def refuse_foreign(folder: Path) -> None:
    """Raises `NotEditable` for anything but the folder of a run."""
    if folder.is_symlink() or not folder.is_dir() or name_of(folder.name) is None:
        raise NotEditable(f"{folder}: not the folder of a run, so it is not deleted")


def refuse_live(run: Path) -> None:
    """Raises `NotEditable` while the run is being recorded."""
    folder = run if run.is_dir() else run.parent
    live = f"{folder.name}: this run is being recorded; wait for its end"
    try:
        with open_run(run) as reader:
            if reader.live:
                raise NotEditable(live)
    except BadRunFile as error:
        if "held by" in str(error) or _starting(folder):
            raise NotEditable(live) from None


def _starting(folder: Path) -> bool:
    """There is no file yet, and the launcher that made the folder is alive."""
    try:
        pid = int(json.loads((folder / SETTINGS).read_text())["launcher"])
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return False
    return True


def size_bytes(folder: Path) -> int:
    """What a run takes on disk."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
