"""The keys and how to read the screen."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from ...profiler.reports import phases
from .. import draw

_KEYS = (
    ("1 to 9", "a view; tab and shift+tab go to the next one"),
    ("↑ ↓ j k", "choose a line (g G: the first, the last)"),
    ("space", "play a replay, or pause it"),
    ("← →", "move the cursor (with shift: ten times as far)"),
    ("home end", "to the start; to the newest moment"),
    ("p", "overview: the next panel, in a small terminal"),
    ("o", "steps: the longest ones, or the newest"),
    ("enter c", "findings: show me why; copy as Markdown"),
    ("r", "the newest recorded runs, to open one"),
    ("ctrl+p", "all commands by name"),
    ("t S", "light or dark; save the screen as SVG"),
    ("? escape", "this help; back"),
    ("q", "quit; the job goes on"),
)


class HelpScreen(ModalScreen[None]):
    """Closes with any of its keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "dismiss", "close"),
        ("question_mark", "dismiss", "close"),
        ("enter", "dismiss", "close"),
    ]
    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen > VerticalScroll {
        width: 66; max-width: 100%; height: auto; max-height: 100%;
        border: round $primary; background: $surface; padding: 0 2;
    }
    """

    def compose(self) -> ComposeResult:
        box = VerticalScroll(Static(_text()))
        box.border_title = "accelprof top"
        yield box

    def action_dismiss(self, result: None = None) -> None:  # type: ignore[override]
        """Closes the help."""
        self.dismiss(result)


def _text() -> Text:
    text = Text()
    for keys, what in _KEYS:
        text.append(keys.ljust(10), draw.STRONG)
        text.append(f"{what}\n")
    text.append("\nThe phases, their letters and colours\n", draw.STRONG)
    for name, look in phases.LOOKS.items():
        text.append_text(draw.letter(name))
        text.append(f" {name.ljust(14)}{look.meaning}\n")
    text.rstrip()
    return text
