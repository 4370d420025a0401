"""Where the time goes: the whole run and the last minute."""

from __future__ import annotations

from rich.text import Text

from ...profiler.reports import content
from .. import draw
from ..model import Snapshot
from .panel import Panel

_NAME = 8


class SharesPanel(Panel[Snapshot]):
    """Two bars of shares over one legend."""

    DEFAULT_CSS = """
    SharesPanel { height: 4; }
    """
    TITLE = "where the time goes"

    def title(self, snapshot: Snapshot) -> str:
        lost = content.cost_in_brief(snapshot.report)
        return f"{self.TITLE} · {lost}" if lost else self.TITLE

    def draw(self, snapshot: Snapshot, width: int, height: int) -> list[Text]:
        groups = [snapshot.report.time.shares, snapshot.pace.shares]
        lines = [
            Text.assemble((name.ljust(_NAME), draw.QUIET), draw.share_bar(shares, width - _NAME))
            for name, shares in zip(("run", "minute"), groups, strict=True)
        ]
        return [*lines, Text(" " * _NAME) + draw.legend(groups, width - _NAME)]
