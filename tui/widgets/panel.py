"""The common form of a panel: a title on a rule, and a picture of the newest snapshot below."""

from __future__ import annotations

from typing import Generic, TypeVar

from rich.text import Text
from textual.geometry import Size
from textual.markup import escape
from textual.widget import Widget

from ..model import HostSnapshot, Snapshot

Seen = TypeVar("Seen", Snapshot, HostSnapshot, Snapshot | HostSnapshot)


class Panel(Widget, Generic[Seen]):
    """Draws one snapshot. Subclasses give `draw`, and `title` and `note` when they change."""

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
        self._picture: tuple[Size, Text] | None = None  # for a size; drawn once a snapshot
        self._lines = 0

    def on_mount(self) -> None:
        self.border_title = self.TITLE

    def show(self, snapshot: Seen) -> None:
        """Draws this from now on; only a panel that grows or shrinks moves the others."""
        self.seen = snapshot
        self._picture = None
        title = escape(self.title(snapshot))
        if self.border_title != title:
            self.border_title = title
        height = self.styles.height
        grows = False
        if height is not None and height.is_auto:
            lines = self.render().plain.count("\n")
            grows, self._lines = lines != self._lines, lines
        self.refresh(layout=grows)

    def title(self, snapshot: Seen) -> str:
        """What stands on the rule."""
        return self.TITLE

    def render(self) -> Text:
        if self.seen is None:
            return Text("…", "dim")
        if self._picture is None or self._picture[0] != self.size:
            self._picture = self.size, self.draw(self.seen)
        return self._picture[1]

    def draw(self, snapshot: Seen) -> Text:
        """The content, for the size that the panel has now."""
        raise NotImplementedError
