"""`accelprof top`: the application. It chooses the first screen; the screens do the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from ..storage.reader import BadRunFile, RunReader, open_run
from .feed import RunFeed
from .host_feed import HostFeed
from .model import RunChoice
from .screens.help import HelpScreen
from .screens.host import HostScreen
from .screens.picker import PickerScreen
from .screens.run import RunScreen


class TopApp(App[None]):
    """One run when a reader is given, else a picker of `choices`, else the host."""

    CSS_PATH = "top.tcss"
    TITLE = "accelprof top"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (130, "-wide")]  # noqa: RUF012 - as App has them
    VERTICAL_BREAKPOINTS = [(0, "-short"), (38, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "help", key_display="?"),
        Binding("t", "light_or_dark", "light/dark"),
        Binding("escape", "leave", show=False),
        Binding("q", "quit", "quit", priority=True),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def __init__(
        self, reader: RunReader | None = None, choices: Sequence[RunChoice] = (),
        *, opener: Callable[[Path], RunReader] = open_run,
        feed: Callable[[RunReader], RunFeed] = RunFeed,
    ) -> None:  # fmt: skip
        super().__init__()
        self._reader = reader
        self._choices = choices
        self._opener = opener
        self._feed = feed

    def get_default_screen(self) -> Screen[None]:
        if self._reader is not None:
            return RunScreen(self._reader, self._feed(self._reader))
        if self._choices:
            return PickerScreen(self._choices)
        return HostScreen(HostFeed())

    def on_picker_screen_chosen(self, message: PickerScreen.Chosen) -> None:
        try:
            reader = self._opener(message.folder)
            self.push_screen(RunScreen(reader, self._feed(reader)))
        except BadRunFile as error:
            self.notify(str(error), severity="error")

    def action_help(self) -> None:
        """Shows the keys."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen())

    def action_light_or_dark(self) -> None:
        """Changes between the two themes."""
        dark = self.current_theme.dark
        self.theme = "textual-light" if dark else "textual-dark"

    def action_leave(self) -> None:
        """Leaves a screen that was opened from another one."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
