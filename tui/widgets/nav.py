"""The line of views: which there are, the key of each, and which is shown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from .. import draw

# In the order in which they give way where the line is too narrow
_SHORT = {"roofline": "roof", "findings": "found", "overview": "over", "devices": "dev"}


class Nav(Widget):
    """`1 overview  2 devices ...`; a click on a name goes there."""

    DEFAULT_CSS = """
    Nav {
        height: 1; padding: 0 1; background: $surface;
        link-style: none; link-color: $text; link-background: $surface;
        link-style-hover: underline; link-color-hover: $text; link-background-hover: $boost;
    }
    """
    current: reactive[str] = reactive("")

    def __init__(self, views: Sequence[tuple[str, str]]) -> None:
        """`views`: key and name of each."""
        super().__init__()
        self.views = tuple(views)

    def render(self) -> Text:
        line = self._line(0, "  ")
        for short in range(len(_SHORT) + 1):
            if line.cell_len <= self.size.width:
                break
            line = self._line(short, " ")
        return line

    def _line(self, short: int, gap: str) -> Text:
        names = dict(list(_SHORT.items())[:short])
        line = Text(no_wrap=True, overflow="ellipsis")
        for at, (key, name) in enumerate(self.views):
            shown = names.get(name, name)
            goes = Style(meta={"@click": f"screen.view('{name}')"})
            mark = draw.CHOSEN if name == self.current else Style.null()
            line.append(gap if at else "")
            line.append(key, draw.STRONG + goes + mark)
            line.append(f" {shown}", goes + mark)
        return line
