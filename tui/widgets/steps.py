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
        text = f"step time, 0 to {top}; last minute p50 {figures.milliseconds(pace.p50_ms)} (solid)"
        late = "" if pace.p95_ms is None else f", p95 {figures.milliseconds(pace.p95_ms)} (shaded)"
        return text + late

    def draw(self, snapshot: Snapshot, width: int, height: int) -> list[Text]:
        return draw.step_chart(snapshot.columns, width, height, snapshot.step_ceiling_ms)
