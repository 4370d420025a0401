"""`accelprof runs`: the recorded runs, newest first, each from its own file."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from ...storage import library
from ...storage.reader import BadRunFile, QueryError, open_run
from ..report import Confidence
from ..reports import figures, phases
from ..reports.paint import Paint, wants_colour
from ..reports.plain import align, clean, width
from ..reports.summary import SUMMARY_KEY, read_summary

_READERS = 4  # opening a file takes about 15 ms, most of it outside Python


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


def runs(
    json: Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")] = False,
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", min=1, help="Only the newest N runs.")
    ] = None,
) -> None:
    """List the recorded runs, newest first.

    Example: accelprof runs -n 10
    """
    folders = library.list_runs()[:limit]
    found = read_all(folders)
    if json:
        body = {"schema": "accelprof.runs/1", "runs": found}
        print(msgspec.json.format(msgspec.json.encode(body), indent=2).decode())
    elif found:
        print(table(found, time.time(), Paint(wants_colour(sys.stdout))))
    elif not folders:
        where = library.home() / "runs"
        print(f"accelprof: no runs in {where} yet: accelprof run COMMAND", file=sys.stderr)


def read_all(folders: list[Path]) -> list[Row]:
    """The runs that can be read; each of the others is one line on stderr."""
    with ThreadPoolExecutor(_READERS) as pool:
        rows = list(pool.map(_read_or_complaint, folders))
    for row in rows:
        if isinstance(row, str):
            print(f"accelprof: left out: {clean(row, 300)}", file=sys.stderr)
    return [row for row in rows if isinstance(row, Row)]


def _read_or_complaint(folder: Path) -> Row | str:
    try:
        return read(folder)
    except (BadRunFile, QueryError) as error:
        return str(error).splitlines()[0]


def read(folder: Path) -> Row:
    """One run's row. Raises `BadRunFile`, `QueryError`."""
    with open_run(folder) as reader:
        rows = reader.dicts(
            "SELECT id, name, state, started_ns, ended_ns, command, tags, "
            "(SELECT value FROM meta WHERE key = ?) AS summary, "
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
    )


def _iso(t_ns: int) -> str:
    return datetime.fromtimestamp(t_ns / 1e9, UTC).isoformat(timespec="seconds")


# -- for people --------------------------------------------------------------------------------

_HEAD = ("RUN", "STATE", "WHEN", "WALL", "STEPS", "SAMPLES/S", "VERDICT")
_RIGHT = (3, 4, 5)


def table(rows: list[Row], now_s: float, paint: Paint) -> str:
    """The runs as aligned columns; ids are whole, so that they can be copied."""
    texts = [_HEAD, *(_texts(row, now_s) for row in rows)]
    widths = [max(width(line[at]) for line in texts) for at in range(len(_HEAD))]
    lines = []
    for at, line in enumerate(texts):
        cells = [align(text, widths[c], right=c in _RIGHT) for c, text in enumerate(line)]
        if at == 0:
            lines.append(paint.dim("  ".join(cells).rstrip()))
        else:
            verdict = cells.pop().rstrip()
            share = phases.SHARE_OF_BOTTLENECK.get(rows[at - 1].bottleneck or "")
            verdict = paint.chip(verdict, share) if share else verdict
            lines.append("  ".join([*cells, verdict]).rstrip())
    return "\n".join(lines)


def _texts(row: Row, now_s: float) -> tuple[str, ...]:
    verdict = f"{row.bottleneck} ({row.confidence})" if row.bottleneck else figures.UNKNOWN
    return (
        clean(row.id, 80),
        row.state,
        _when(row.started_at, now_s),
        figures.seconds(row.wall_s),
        figures.count(row.steps),
        figures.number(row.samples_per_s),
        verdict,
    )


def _when(started_at: str | None, now_s: float) -> str:
    """How long ago, and from a day on the date."""
    if started_at is None:
        return figures.UNKNOWN
    started = datetime.fromisoformat(started_at)
    ago = now_s - started.timestamp()
    if 0 <= ago < 86400:
        whole = int(ago)
        for size, unit in ((3600, "h"), (60, "min"), (1, "s")):
            if whole >= size:
                return f"{whole // size} {unit} ago"
        return "now"
    return started.astimezone().strftime("%Y-%m-%d %H:%M")
