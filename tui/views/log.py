"""What happened, in order: the job's output, events, missing readings, accelprof's messages."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.widgets import Static

from ...profiler.reports import figures
from ...profiler.reports.plain import clean
from .. import draw
from ..model import LogLine, Snapshot
from ..model import LogView as Log
from ..widgets.rows import Rows
from .view import View

_HEAD = ("AT", "KIND", "WHAT")
_NOT_KEPT = (
    "The job's own output is not here: it goes to the terminal or file that the job was started "
    "with, untouched. A job started with `accelprof run --tui` has it here."
)
_STYLES = {"job": Style.null(), "missing": Style(color="#E69F00"), "accelprof": draw.QUIET}


class LogView(View):
    """A line an event; it stays at the end unless it was scrolled away from there."""

    NAME = "log"
    DEFAULT_CSS = """
    LogView > Static { height: auto; padding: 0 1; display: none; }
    """

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
        rows.fill([_row(line) for line in found.lines], f"log ({len(found.lines)})")
        if follows:
            rows.scroll_end(animate=False)


def _row(line: LogLine) -> tuple[str | Text, ...]:
    style = _STYLES.get(line.kind, draw.STRONG)
    return figures.clock(line.at_s), Text(clean(line.kind, 24), style), clean(line.text, 400)
