"""What happened in the run: the job's output, events, what could not be read, our messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from ...profiler.reports import figures
from ...storage import library
from ..model import LogLine, LogView
from ..pty import kept
from .moment import Moment

MOST_EVENTS, MOST_BYTES, MOST_LINES = 500, 64 << 10, 2000
INTERNAL = ("activations", "device-processes")  # what other views are made from
_UNITS: dict[str, Callable[[float], str]] = {
    "_ns": lambda value: figures.seconds(value / 1e9), "_s": figures.seconds,
    "_bytes": lambda value: figures.size(int(value)),
}  # fmt: skip


def read(moment: Moment) -> LogView:
    """All lines in the order of their time; those without one follow the line before."""
    output = kept.lines(moment.reader.folder, moment.cursor_ns)
    job = [LogLine((t_ns - moment.started_ns) / 1e9, "job", text) for t_ns, text in output or ()]
    lines = [*_events(moment), *_gaps(moment), *_messages(moment), *job[-MOST_LINES:]]
    ordered = sorted(lines, key=lambda line: line.at_s or 0.0)
    return LogView(tuple(ordered), output is not None)


def _events(moment: Moment) -> Iterator[LogLine]:
    rows = moment.reader.rows(
        "SELECT t_ns, kind, pid, rank, data FROM event WHERE t_ns <= ? ORDER BY t_ns DESC "
        f"LIMIT {MOST_EVENTS}",
        (moment.cursor_ns,),
    )
    for t_ns, kind, pid, rank, data in rows:
        if kind in INTERNAL:
            continue
        where = [f"pid {pid}"] if pid is not None else []
        where += [f"rank {rank}"] if rank is not None else []
        text = ": ".join(part for part in (" ".join(where), _flat(data)) if part)
        yield LogLine((t_ns - moment.started_ns) / 1e9, kind or "event", text)


def _flat(data: Any) -> str:
    """`{"state": "finished", "signal": null}` as `state finished`; no lists of bare numbers."""
    try:
        found = json.loads(data) if isinstance(data, str) else data
    except ValueError:
        return str(data)
    if not isinstance(found, dict):
        return "" if found is None else str(found)
    parts = (_part(key, value) for key, value in found.items())
    return ", ".join(part for part in parts if part)


def _part(key: str, value: Any) -> str:
    """One fact in words, with the unit that its name ends in."""
    if value is None or isinstance(value, list | dict):
        return ""
    if isinstance(value, bool):
        return key.replace("_", " ") if value else ""
    number = isinstance(value, int | float)
    for ending, written in _UNITS.items():
        if number and key.endswith(ending):
            return f"{key.removesuffix(ending).replace('_', ' ')} {written(value)}"
    return f"{key.replace('_', ' ')} {figures.number(value) if number else value}"


def _gaps(moment: Moment) -> Iterator[LogLine]:
    rows = moment.reader.rows(
        "SELECT min(t_ns), source, metric, reason FROM gap WHERE t_ns <= ? GROUP BY ALL "
        f"ORDER BY 1 LIMIT {MOST_EVENTS}",
        (moment.cursor_ns,),
    )
    for t_ns, source, metric, reason in rows:
        name = ".".join(part for part in (source, metric) if part and part != "*")
        yield LogLine((t_ns - moment.started_ns) / 1e9, "missing", f"{name}: {reason}")


def _messages(moment: Moment) -> Iterator[LogLine]:
    """The end of log.txt. A line of a traceback has no time of its own."""
    at = 0.0
    for line in _tail(moment.reader.folder / library.LOG):
        stamp, _, rest = line.partition(" ")
        seconds = _seconds(stamp, moment.started_ns)
        if seconds is None:
            yield LogLine(at, "accelprof", line)
            continue
        at = seconds
        if seconds * 1e9 <= moment.cursor_ns - moment.started_ns + 1e9:
            yield LogLine(seconds, "accelprof", rest)


def _tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - MOST_BYTES))
            return file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def _seconds(stamp: str, started_ns: int) -> float | None:
    try:
        return max(0.0, datetime.fromisoformat(stamp).timestamp() - started_ns / 1e9)
    except ValueError:
        return None
