"""Step times over the same stretch as the timeline."""

from __future__ import annotations

from rich.text import Text

from ...profiler.reports import figures
from .. import draw
from ..model import Snapshot
from .panel import Panel


class StepChart(Panel[Snapshot]):
    """Median and p95 of each column."""

    DEFAULT_CSS = """
    StepChart { height: 5; }
    """

    TITLE = "step time"

    def title(self, snapshot: Snapshot) -> str:
        pace = snapshot.pace
        if pace.p50_ms is None:
            return "step time"
        top = figures.milliseconds(snapshot.step_ceiling_ms)
        p50, p95 = figures.milliseconds(pace.p50_ms), figures.milliseconds(pace.p95_ms)
        return f"step time, 0 to {top}; last minute p50 {p50} (solid), p95 {p95} (shaded)"

    def draw(self, snapshot: Snapshot, width: int, height: int) -> list[Text]:
        return draw.step_chart(snapshot.columns, width, height, snapshot.step_ceiling_ms)
