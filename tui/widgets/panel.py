"""The common form of a panel: a title on a rule, and a picture of the newest snapshot below."""

from __future__ import annotations

from typing import Generic, TypeVar

from rich.text import Text
from textual.markup import escape
from textual.reactive import reactive
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

    seen: reactive[Seen | None] = reactive(None, layout=True, always_update=True)

    def on_mount(self) -> None:
        self.border_title = self.TITLE

    def show(self, snapshot: Seen) -> None:
        """Draws this from now on."""
        self.seen = snapshot
        self.border_title = escape(self.title(snapshot))

    def title(self, snapshot: Seen) -> str:
        """What stands on the rule."""
        return self.TITLE

    def render(self) -> Text:
        if self.seen is None:
            return Text("…", "dim")
        return self.draw(self.seen)

    def draw(self, snapshot: Seen) -> Text:
        """The content, for the size that the panel has now."""
        raise NotImplementedError
