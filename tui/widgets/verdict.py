"""The verdict so far, how sure it is, and why."""

from __future__ import annotations

from rich.text import Text

from ...profiler.reports import content
from ...profiler.reports.plain import clean, fit, wrap
from .. import draw
from ..model import Snapshot
from .panel import Panel


class VerdictPanel(Panel[Snapshot]):
    """Bottleneck, confidence, cause, headline; evidence where there is room."""

    DEFAULT_CSS = """
    VerdictPanel { height: 4; }
    """

    TITLE = "verdict"

    def title(self, snapshot: Snapshot) -> str:
        return "verdict so far" if snapshot.live else "verdict"

    def draw(self, snapshot: Snapshot, width: int, height: int) -> list[Text]:
        verdict = snapshot.report.verdict
        first = draw.chip(verdict.bottleneck)
        first.append(f"  {verdict.confidence} confidence")
        if verdict.cause:
            first.append(f"  cause: {clean(verdict.cause)}", draw.STRONG)
        now = snapshot.bottleneck_now
        if now and now != verdict.bottleneck and first.cell_len + len(now) + 8 < width:
            first.append("  now: ", draw.QUIET)
            first.append(now)
        lines = [first]
        texts = [item.text for item in verdict.evidence]
        texts += [f"but {text}" for text in verdict.against]
        room = max(1, height - 1)
        lines += [Text(line) for line in wrap(content.headline(snapshot.report), width, room)]
        for text in texts[: height - len(lines)]:
            lines.append(Text(f"· {fit(clean(text), width - 2)}", draw.QUIET))
        return lines[:height]
