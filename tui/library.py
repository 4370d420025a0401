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
    return [_choice(str(folder), row) for folder, row in found if isinstance(row, Row)]


def _choice(folder: str, row: Row) -> RunChoice:
    return RunChoice(
        folder, row.id, row.name or "", " ".join(row.command), None,
        content.state(row.state, row.exit_status), figures.seconds(row.wall_s),
        row.bottleneck or "no verdict", (row.confidence or "") if row.bottleneck else "",
    )  # fmt: skip
