"""`accelprof top`: the application. It chooses the first screen; the screens do the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from ..storage.reader import BadRunFile, RunReader, open_run
from . import copying, library
from .feed import RunFeed
from .host_feed import HostFeed
from .model import RunChoice
from .screens.help import HelpScreen
from .screens.host import HostScreen
from .screens.picker import PickerScreen
from .screens.run import Feed, RunScreen
from .views import VIEWS
from .views.findings import FindingsView


class TopApp(App[None]):
    """One run when a reader is given, else a picker of `choices`, else the host."""

    CSS_PATH = "top.tcss"
    TITLE = "accelprof top"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (130, "-wide")]  # noqa: RUF012 - as App has them
    VERTICAL_BREAKPOINTS = [(0, "-short"), (38, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "help", key_display="?"),
        Binding("r", "runs", "runs", show=False),
        Binding("t", "light_or_dark", "light/dark", show=False),
        Binding("S", "picture", "picture", show=False),
        Binding("escape", "leave", show=False),
        Binding("q", "quit", "quit", priority=True),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
    ]

    def __init__(
        self, reader: RunReader | None = None, choices: Sequence[RunChoice] = (),
        *, opener: Callable[[Path], RunReader] = open_run,
        feed: Callable[[RunReader], Feed] = RunFeed,
    ) -> None:  # fmt: skip
        super().__init__()
        self._reader = reader
        self._choices = choices
        self._opener = opener
        self._feed = feed

    def get_default_screen(self) -> Screen[None]:
        if self._reader is not None:
            return RunScreen(self._feed(self._reader))
        if self._choices:
            return PickerScreen(self._choices)
        return HostScreen(HostFeed())

    def on_picker_screen_chosen(self, message: PickerScreen.Chosen) -> None:
        try:
            self.push_screen(RunScreen(self._feed(self._opener(message.folder))))
        except BadRunFile as error:
            self.notify(str(error), severity="error")

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the command palette offers."""
        if isinstance(screen, RunScreen):
            for at, view in enumerate(VIEWS, 1):
                yield SystemCommand(
                    f"View: {view.NAME}", f"key {at}",
                    lambda name=view.NAME: screen.action_view(name),
                )  # fmt: skip
            yield SystemCommand("Play or pause", "key space", screen.action_play)
            yield SystemCommand("Go to the start", "key home", screen.action_start)
            yield SystemCommand("Go to the newest moment", "key end", screen.action_end)
        yield SystemCommand("Recorded runs", "key r", self.action_runs)
        yield SystemCommand("Light or dark", "key t", self.action_light_or_dark)
        yield SystemCommand("Save a picture", "key S: SVG, into this folder", self.action_picture)
        yield SystemCommand("Help", "key ?", self.action_help)
        yield SystemCommand("Quit", "key q", self.action_quit)

    def action_help(self) -> None:
        """Shows the keys."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen())

    def action_runs(self) -> None:
        """Shows the newest runs of the library to choose from."""
        if not isinstance(self.screen, PickerScreen):
            self.run_worker(self._pick, thread=True, exclusive=True)

    def _pick(self) -> None:
        choices = library.newest()
        if choices:
            self.call_from_thread(self.push_screen, PickerScreen(choices, recorded=True))
        else:
            self.call_from_thread(self.notify, "no runs are recorded yet")

    def action_light_or_dark(self) -> None:
        """Changes between the two themes."""
        dark = self.current_theme.dark
        self.theme = "textual-light" if dark else "textual-dark"

    def action_leave(self) -> None:
        """Leaves a screen that was opened from another one."""
        if len(self.screen_stack) > 1:
            self.pop_screen()

    async def action_interrupt(self) -> None:
        """Ctrl-C."""
        await self.action_quit()

    def action_picture(self) -> None:
        """Saves the screen as SVG."""
        name = self.screen.shown.NAME if isinstance(self.screen, RunScreen) else "top"
        try:
            path = copying.save_picture(self.export_screenshot(), name)
        except OSError as error:
            self.notify(f"no picture: {error}", severity="error")
        else:
            self.notify(f"saved {path}")

    def on_findings_view_copy(self, message: FindingsView.Copy) -> None:
        screen = self.screen
        if isinstance(screen, RunScreen) and screen.snapshot is not None:
            text = copying.markdown(screen.snapshot.report, message.finding)
            self.copy_to_clipboard(text)
            self.run_worker(lambda: copying.to_tmux(text), thread=True)
            self.notify(f"copied {message.finding.id} as Markdown")
