"""The choice among several runs: those that are alive, or the newest of the library."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.events import Click
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from ...profiler.reports.plain import clean
from .. import draw
from ..model import RunChoice
from ..widgets.keys import KeyLine
from ..widgets.rows import Row, Rows

_HEAD = ("RUN", "STATE", "TOOK", "VERDICT", "SURE", "COMMAND")
_RIGHT = (2,)
_GIVES_WAY = (4, 5, 2)


class PickerScreen(Screen[None]):
    """One line a run; enter or a click opens it."""

    BINDINGS: ClassVar[list[BindingType]] = [("enter", "select", "open")]
    DEFAULT_CSS = """
    PickerScreen > Static { padding: 1 1; }
    """

    class Chosen(Message):
        """The user chose this run."""

        def __init__(self, folder: Path) -> None:
            super().__init__()
            self.folder = folder

    def __init__(self, choices: Sequence[RunChoice], *, recorded: bool = False) -> None:
        super().__init__()
        self._choices = list(choices)
        count = len(self._choices)
        self._title = (
            f"{count} recorded runs, the newest first." if recorded else f"{count} runs are alive."
        )

    def compose(self) -> ComposeResult:
        yield Static(Text(f"{self._title} Which one?", draw.STRONG))
        yield _Runs()
        yield KeyLine()

    def on_mount(self) -> None:
        rows = self.query_one(_Runs)
        rows.fill([_row(choice) for choice in self._choices])
        rows.focus()

    def action_select(self) -> None:
        """Opens the chosen run."""
        chosen = self._choices[self.query_one(_Runs).chosen]
        self.post_message(self.Chosen(Path(chosen.folder)))


class _Runs(Rows):
    """A click opens a run at once."""

    def __init__(self) -> None:
        super().__init__(_HEAD, _RIGHT, _GIVES_WAY)

    def on_click(self, event: Click) -> None:
        super().on_click(event)
        inside = event.get_content_offset(self)
        if inside is not None and 0 < inside.y <= self.count:
            self.call_later(self.screen.run_action, "select")


def _row(choice: RunChoice) -> Row:
    command = clean(choice.command, 200)
    return (clean(choice.id, 80), choice.state, choice.took, choice.verdict, choice.sure, command)
