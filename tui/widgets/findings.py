"""What was found, and what to change, the most worth first."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll

from ...profiler.report import Finding
from ...profiler.reports import content
from ...profiler.reports.plain import clean, wrap
from .. import draw
from ..model import Snapshot
from .panel import Panel

MARKS = {
    "critical": ("●", Style(color="#D55E00", bold=True)),
    "warning": ("▲", Style(color="#E69F00", bold=True)),
    "info": ("·", Style(bold=True)),
}


class FindingList(Panel[Snapshot]):
    """A title, its worth and its advice for each finding."""

    DEFAULT_CSS = """
    FindingList { border: none; }
    """

    def draw(self, snapshot: Snapshot, width: int, height: int) -> list[Text]:
        found = content.by_worth(snapshot.findings)
        if not found:
            return draw.notes("nothing found so far", width)
        return [line for finding in found for line in _finding(finding, width)]


def _finding(finding: Finding, width: int) -> list[Text]:
    mark, style = MARKS[finding.severity]
    worth = content.worth(finding)
    title = clean(finding.title) + (f" ({worth})" if worth else "")
    lines = [
        Text.assemble((f"{mark if at == 0 else ' '} ", style), (line, draw.STRONG))
        for at, line in enumerate(wrap(title, max(10, width - 2)))
    ]
    for advice in finding.advice:
        for at, line in enumerate(wrap(clean(advice), max(10, width - 4))):
            lines.append(Text.assemble("  ", ("→ " if at == 0 else "  ", style), line))
    return lines


class FindingsPanel(VerticalScroll):
    """The list, scrolled."""

    DEFAULT_CSS = """
    FindingsPanel {
        height: 1fr;
        border-top: solid $primary-muted;
        border-title-color: $text-accent;
        border-title-style: bold;
        scrollbar-size-vertical: 1;
    }
    """

    def compose(self) -> ComposeResult:
        yield FindingList()

    def on_mount(self) -> None:
        self.border_title = "what to change"

    def show(self, snapshot: Snapshot) -> None:
        """Draws this from now on."""
        self.query_one(FindingList).show(snapshot)
