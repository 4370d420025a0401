"""What happened, in order: the job's output, events, missing readings, accelprof's messages."""

from __future__ import annotations

import functools

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.widgets import Static

from ...profiler.reports import figures
from ...profiler.reports.plain import clean, wrap
from .. import draw
from ..model import LogLine, Snapshot
from ..model import LogView as Log
from ..widgets.rows import Row, Rows
from .view import View

_HEAD = ("AT", "KIND", "WHAT")
_NOT_KEPT = (
    "The job's own output is not here: it goes to the terminal or file that the job was started "
    "with, untouched. A job started with `accelprof run --tui` has it here."
)
_KIND, _TIME, _LEAST = 24, 11, 20  # cells: of a kind at most, of times with all gaps, of a text
_STYLES = {"job": Style.null(), "missing": Style(color="#E69F00"), "accelprof": draw.QUIET}


class LogView(View):
    """A line an event; it stays at the end unless it was scrolled away from there."""

    NAME = "log"
    DEFAULT_CSS = """
    LogView > Static { height: auto; padding: 0 1; display: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: Snapshot | None = None

    def on_resize(self) -> None:
        """Other lines fit now."""
        if self._seen is not None:
            self.show(self._seen)

    def compose(self) -> ComposeResult:
        yield Static(Text(_NOT_KEPT, draw.QUIET))
        yield Rows(_HEAD, (0,), chooses=False, empty="nothing so far", id="log-rows")

    def show(self, snapshot: Snapshot) -> None:
        found = snapshot.details.get("log")
        if not isinstance(found, Log):
            return
        self.query_one(Static).display = not found.output_kept
        rows = self.query_one(Rows)
        follows = rows.scroll_offset.y >= rows.max_scroll_y
        self._seen = snapshot
        kinds = max((len(line.kind) for line in found.lines), default=0)
        room = max(_LEAST, rows.scrollable_content_region.width - min(kinds, _KIND) - _TIME)
        shown = [row for line in found.lines for row in _rows(line, room)]
        rows.fill(shown, f"log ({len(found.lines)})")
        if follows:
            rows.scroll_end(animate=False)


@functools.lru_cache(maxsize=8192)
def _rows(line: LogLine, room: int) -> list[Row]:
    """The line over as many rows as its text takes."""
    style = _STYLES.get(line.kind, draw.STRONG)
    first, *rest = wrap(clean(line.text, 400), room)
    head = figures.clock(line.at_s), Text(clean(line.kind, _KIND), style), first
    return [head, *(("", "", text) for text in rest)]
