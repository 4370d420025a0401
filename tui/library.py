"""The newest recorded runs, for the picker."""

from __future__ import annotations

from ..profiler.reports import content, figures
from ..profiler.runs import Row, rows_or_complaints
from ..storage import library
from .model import RunChoice

NEWEST = 100


def newest() -> list[RunChoice]:
    """The newest runs that can be read, alive or not."""
    folders = library.list_runs()[:NEWEST]
    found = zip(folders, rows_or_complaints(folders), strict=True)
    return [
        RunChoice(str(folder), row.id, row.name or "", " ".join(row.command), None, _outcome(row))
        for folder, row in found
        if isinstance(row, Row)
    ]


def _outcome(row: Row) -> str:
    took = "" if row.wall_s is None else f" {figures.seconds(row.wall_s)}"
    sure = f" ({row.confidence})" if row.bottleneck and row.confidence else ""
    state = content.state(row.state, row.exit_status)
    return f"{state}{took}".ljust(17) + f"{row.bottleneck or 'no verdict'}{sure}"
