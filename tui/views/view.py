"""The common form of a view: one screenful about one question, drawn from the newest snapshot."""

from __future__ import annotations

from typing import ClassVar

from textual.containers import Container

from ..model import Snapshot


class View(Container):
    """Subclasses compose panels and pass snapshots on to them."""

    DEFAULT_CSS = """
    View { height: 1fr; }
    """
    NAME: ClassVar[str] = ""  # in the line of views, and of its details

    def __init__(self) -> None:
        super().__init__(id=self.NAME)

    def show(self, snapshot: Snapshot) -> None:
        """Draws this from now on."""
        raise NotImplementedError

    def start(self) -> None:
        """The view has come to the front: what takes the arrow keys gets the focus."""
        for widget in self.query("*"):
            if widget.focusable:
                self.screen.set_focus(widget, scroll_visible=False)
                return
        self.screen.set_focus(None)
