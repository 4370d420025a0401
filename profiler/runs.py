"""The recorded runs as rows, newest first, each from its own file; and which of them are wanted."""

from __future__ import annotations

import calendar
import sys
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from ..storage.library import RUN_FILE
from ..storage.reader import BadRunFile, QueryError, open_run
from .report import Confidence
from .reports.plain import clean
from .reports.summary import SUMMARY_KEY, read_summary

_READERS = 4  # opening a file takes about 15 ms, most of it outside Python
_AT_ONCE = 64
_STARTING_S = 60.0
_STAMP_SLACK_S = 60  # an id is made a moment before its run starts


class Row(msgspec.Struct):
    """One run, with the keys of `--json`."""

    id: str
    name: str | None
    state: str
    started_at: str | None
    wall_s: float | None
    command: list[str]
    tags: dict[str, str]
    bottleneck: str | None
    confidence: Confidence | None
    steps: int | None
    samples_per_s: float | None
    user: str | None = None
    host: str | None = None
    note: str | None = None
    exit_status: int | None = None


class Wanted(msgspec.Struct, frozen=True):
    """Which runs: all that is given must hold. `tags`: None as value means any."""

    tags: Mapping[str, str | None] = {}
    verdict: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    user: str | None = None
    name: str | None = None  # with * and ? as in a shell

    def may_be(self, folder: Path) -> bool:
        """By the id alone, before the file is opened."""
        stamped = _stamp(folder.name)
        if stamped is None:
            return True
        early = self.since and stamped < self.since.timestamp() - _STAMP_SLACK_S
        late = self.until and stamped > self.until.timestamp() + _STAMP_SLACK_S
        return not (early or late)

    def holds(self, row: Row) -> bool:
        """By what the run says of itself."""
        started = datetime.fromisoformat(row.started_at) if row.started_at else None
        return (
            all(k in row.tags and v in (None, row.tags[k]) for k, v in self.tags.items())
            and self.verdict in (None, row.bottleneck)
            and self.user in (None, row.user)
            and (self.name is None or fnmatchcase(row.name or "", self.name))
            and (self.since is None or (started is not None and started >= self.since))
            and (self.until is None or (started is not None and started <= self.until))
        )


def _stamp(run_id: str) -> float | None:
    try:
        return float(calendar.timegm(time.strptime(run_id[:15], "%Y%m%d-%H%M%S")))
    except ValueError:
        return None


def find(folders: Iterable[Path], wanted: Wanted, limit: int | None = None) -> list[Row]:
    """The wanted runs, at most `limit`; each that cannot be read is one line on stderr."""
    left = [folder for folder in folders if wanted.may_be(folder)]
    rows: list[Row] = []
    while left and (limit is None or len(rows) < limit):
        batch, left = left[:_AT_ONCE], left[_AT_ONCE:]
        rows += [row for row in read_all(batch) if wanted.holds(row)]
    return rows[:limit]


def read_all(folders: list[Path]) -> list[Row]:
    """The runs that can be read; each of the others is one line on stderr."""
    found = rows_or_complaints([folder for folder in folders if not _starting(folder)])
    for row in found:
        if isinstance(row, str):
            print(f"accelprof: left out: {clean(row, 300)}", file=sys.stderr)
    return [row for row in found if isinstance(row, Row)]


def rows_or_complaints(folders: list[Path]) -> list[Row | str]:
    """For each folder its row, or why there is none."""
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(_read_or_complaint, folders))


def _starting(folder: Path) -> bool:
    """Its recorder has just been started and has no file yet: nothing to tell of, nor wrong."""
    try:
        young = time.time() - folder.stat().st_mtime < _STARTING_S
    except OSError:
        return False
    return young and not (folder / RUN_FILE).exists()


def _read_or_complaint(folder: Path) -> Row | str:
    try:
        return read(folder)
    except (BadRunFile, QueryError) as error:
        return str(error).splitlines()[0]


def read(folder: Path) -> Row:
    """One run's row. Raises `BadRunFile`, `QueryError`."""
    with open_run(folder) as reader:
        rows = reader.dicts(
            'SELECT id, name, state, started_ns, ended_ns, command, tags, host, "user", note, '
            "exit_status, (SELECT value FROM meta WHERE key = ?) AS summary, "
            "(SELECT count(*) FROM step) AS steps FROM run LIMIT 1",
            (SUMMARY_KEY,),
        )
        if not rows:
            raise BadRunFile(f"{folder.name}: empty, nothing was recorded")
        return _row(rows[0], reader.live)


def _row(row: dict[str, Any], live: bool) -> Row:
    summary = read_summary(row["summary"])
    started, ended = row["started_ns"], row["ended_ns"]
    state = row["state"] or "lost"
    if state == "running":
        state, ended = ("running", time.time_ns()) if live else ("lost", ended)
    return Row(
        id=row["id"],
        name=row["name"],
        state=state,
        started_at=_iso(started) if started else None,
        wall_s=(ended - started) / 1e9 if started and ended else None,
        command=list(row["command"] or []),
        tags=dict(row["tags"] or {}),
        bottleneck=summary.bottleneck,
        confidence=summary.confidence,
        steps=summary.steps if summary.steps is not None else row["steps"],
        samples_per_s=summary.samples_per_s,
        user=row["user"],
        host=row["host"],
        note=row["note"],
        exit_status=row["exit_status"],
    )


def _iso(t_ns: int) -> str:
    return datetime.fromtimestamp(t_ns / 1e9, UTC).isoformat(timespec="seconds")
