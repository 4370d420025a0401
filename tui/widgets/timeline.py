"""Phases over time, with the time axis and the cursor of a replay."""

from __future__ import annotations

from rich.text import Text

from ...profiler.reports import figures
from .. import draw
from ..model import Snapshot
from .panel import Panel


class Timeline(Panel[Snapshot]):
    """A stacked column of shares for each stretch of time."""

    DEFAULT_CSS = """
    Timeline { height: 1fr; min-height: 5; }
    """

    TITLE = "phases over time"

    def title(self, snapshot: Snapshot) -> str:
        if not snapshot.columns:
            return "phases over time"
        first = snapshot.columns[0]
        each = figures.seconds((first.to_ns - first.from_ns) / 1e9)
        return f"phases over time, {each} a column"

    def draw(self, snapshot: Snapshot) -> Text:
        width, height = self.size
        picture = draw.timeline(snapshot.columns, width, height - 1)
        picture.append("\n")
        picture.append_text(self._axis(snapshot, width))
        return picture

    def _axis(self, snapshot: Snapshot, width: int) -> Text:
        if not snapshot.columns:
            return Text()
        start, end = snapshot.columns[0].from_ns, snapshot.columns[-1].to_ns
        begun = (start - snapshot.started_ns) / 1e9
        at_end = snapshot.cursor_ns >= snapshot.ended_ns
        right = "now" if snapshot.live else figures.clock(snapshot.length_s)
        place = None if at_end else (snapshot.cursor_ns - start) / max(1, end - start)
        return draw.axis(width, figures.clock(begun), right, place)
