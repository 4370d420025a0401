"""The common form of a panel: a title on a rule, and a picture of the newest snapshot below."""

from __future__ import annotations

from typing import Generic, TypeVar

from rich.text import Text
from textual.geometry import Region, Size
from textual.markup import escape
from textual.strip import Strip
from textual.widget import Widget

from .. import draw
from ..model import HostSnapshot, Snapshot

Seen = TypeVar("Seen", Snapshot, HostSnapshot, Snapshot | HostSnapshot)


class Panel(Widget, Generic[Seen]):
    """Draws one snapshot. Subclasses give `draw`, and `title` when it changes.

    Its lines are rendered here, each only when it is another one: textual's own way from a Text to
    the screen takes three times as long, and takes it for all lines.
    """

    DEFAULT_CSS = """
    Panel {
        height: auto;
        border-top: solid $primary-muted;
        border-title-color: $text-accent;
        border-title-style: bold;
        border-subtitle-color: $text-muted;
        padding: 0 1;
    }
    """
    TITLE = ""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Seen | None = None
        self._picture: tuple[Size, list[Text]] | None = None  # for a size; drawn once a snapshot

    def on_mount(self) -> None:
        self.border_title = self.TITLE

    def show(self, snapshot: Seen) -> None:
        """Draws this from now on; only a panel that grows or shrinks moves the others."""
        self.seen = snapshot
        title = escape(self.title(snapshot))
        if self.border_title != title:
            self.border_title = title
        before, self._picture = self._picture, None
        if before is None or not self.size:
            self.refresh(layout=self._is_auto)
            return
        lines = self._lines(before[0])
        if len(lines) != len(before[1]):
            self.refresh(layout=self._is_auto)
            return
        width = self.size.width
        changed = [
            Region(0, at, width, 1)
            for at, (old, new) in enumerate(zip(before[1], lines, strict=True))
            if not draw.same(old, new)
        ]
        if changed:
            self.refresh(*changed)

    def title(self, snapshot: Seen) -> str:
        """What stands on the rule."""
        return self.TITLE

    def draw(self, snapshot: Seen, width: int, height: int) -> list[Text]:
        """The content in lines; a panel as high as its content is told no height."""
        raise NotImplementedError

    @property
    def _is_auto(self) -> bool:
        height = self.styles.height
        return height is not None and height.is_auto

    def _lines(self, size: Size) -> list[Text]:
        if self.seen is None:
            return [Text("…", draw.QUIET)]
        if self._is_auto:
            size = Size(size.width, 0)
        if self._picture is None or self._picture[0] != size:
            self._picture = size, self.draw(self.seen, size.width, size.height)
        return self._picture[1]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines(Size(width, 0)))

    def render(self) -> Text:
        return Text("\n", no_wrap=True).join(self._lines(self.size))

    def render_line(self, y: int) -> Strip:
        if self.text_selection is not None:
            return super().render_line(y)
        base, width = self.visual_style.rich_style, self.size.width
        lines = self._lines(self.size)
        if y >= len(lines):
            return Strip.blank(width, base)
        return draw.strip(lines[y], width, base, self.app.console).apply_offsets(0, y)
