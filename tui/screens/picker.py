"""The choice among several runs: those that are alive, or the newest of the library."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ...profiler.reports.plain import clean
from .. import draw
from ..model import RunChoice
from ..widgets.keys import KeyLine


class PickerScreen(Screen[None]):
    """One line a run; enter or a click opens it."""

    BINDINGS: ClassVar[list[BindingType]] = [("enter", "select", "open")]
    DEFAULT_CSS = """
    PickerScreen > Static { padding: 1 2; }
    PickerScreen > OptionList { height: 1fr; }
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
        yield OptionList(*(Option(_line(choice)) for choice in self._choices))
        yield KeyLine()

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.post_message(self.Chosen(Path(self._choices[event.option_index].folder)))


def _line(choice: RunChoice) -> Text:
    line = Text(clean(choice.id, 80), draw.STRONG)
    line.append(f"  {choice.outcome.ljust(40)}" if choice.outcome else "")
    line.append(f"  {clean(choice.command, 200)}")
    line.no_wrap = True
    return line
