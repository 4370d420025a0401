"""Phases over time, with the time axis and the cursor of a replay."""

from __future__ import annotations

from rich.text import Text
from textual.events import Click
from textual.message import Message

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

    class Sought(Message):
        """The user clicked at a moment."""

        def __init__(self, at_ns: int) -> None:
            super().__init__()
            self.at_ns = at_ns

    def on_click(self, event: Click) -> None:
        inside = event.get_content_offset(self)
        if inside is None or self.seen is None or not self.seen.columns:
            return
        start, end = self.seen.columns[0].from_ns, self.seen.columns[-1].to_ns
        place = (inside.x + 0.5) / max(1, self.content_size.width)
        self.post_message(self.Sought(int(start + (end - start) * place)))

    def title(self, snapshot: Snapshot) -> str:
        if not snapshot.columns:
            return "phases over time"
        first = snapshot.columns[0]
        each = figures.seconds((first.to_ns - first.from_ns) / 1e9)
        return f"phases over time, {each} a column"

    def draw(self, snapshot: Snapshot, width: int, height: int) -> list[Text]:
        if not snapshot.columns:
            return []
        return [*draw.timeline(snapshot.columns, width, height - 1), self._axis(snapshot, width)]

    def _axis(self, snapshot: Snapshot, width: int) -> Text:
        start, end = snapshot.columns[0].from_ns, snapshot.columns[-1].to_ns
        begun = (start - snapshot.started_ns) / 1e9
        at_end = snapshot.cursor_ns >= snapshot.ended_ns
        right = "now" if snapshot.live else figures.clock(snapshot.length_s)
        place = None if at_end else (snapshot.cursor_ns - start) / max(1, end - start)
        return draw.axis(width, figures.clock(begun), right, place)
