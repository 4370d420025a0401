"""The job's terminal: draws what the emulator shows, sends what the user types."""

from __future__ import annotations

from rich.segment import Segment
from textual.events import Blur, Focus, Key, MouseScrollDown, MouseScrollUp, Paste
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from ..pty import keys
from ..pty.backlog import Backlog
from ..pty.emulator import APPLICATION_CURSOR, BRACKETED_PASTE, Emulator
from ..pty.job import PtyJob

DRAW_S = 0.05
FLOOD_TAKES = 8  # 0.4 s: what comes too fast to draw cannot be read either
# What is interpreted at once takes some 20 ms; more would make keys wait
SLICE_BYTES = 8 << 10
LEAVE = "ctrl+right_square_bracket"
WHEEL_LINES = 3


class JobTerminal(Widget, can_focus=True):
    """While it has the focus every key goes to the job, but for the one that leaves."""

    DEFAULT_CSS = """
    JobTerminal {
        height: 1fr;
        background: ansi_default;
        border-top: solid $primary-muted;
        border-title-color: $text-accent;
        border-title-style: bold;
    }
    JobTerminal:focus { border-top: solid $accent; }
    """

    class Left(Message):
        """The user wants to go to the other views."""

    def __init__(self, job: PtyJob, columns: int, rows: int) -> None:
        super().__init__()
        self.emulator = Emulator(columns, rows, job.write)
        self._job = job
        self._backlog = Backlog()
        self._back = 0  # lines scrolled into the past
        self._skipped = 0  # bytes left out so far
        self._passed = 0  # times that nothing was interpreted
        job.start(self._backlog.put)

    def on_mount(self) -> None:
        self.set_interval(DRAW_S, self._take)
        self._show_title()

    def _take(self) -> None:
        """Interprets a slice. Of a flood only some: each takes the time to read from the reader."""
        skipped, self._skipped = self._skipped, self._backlog.skipped_bytes
        self._passed = self._passed + 1 if self._skipped > skipped else FLOOD_TAKES
        if self._passed < FLOOD_TAKES:
            return
        self._passed = 0
        data = self._backlog.take(SLICE_BYTES)
        if data:
            self.emulator.feed(data)
            if self.display and self.size.height:
                self.refresh()
                self._show_title()

    def catch_up(self) -> None:
        """Everything that has come, at the end of the view."""
        while data := self._backlog.take(SLICE_BYTES):
            self.emulator.feed(data)

    def _show_title(self) -> None:
        title = "job"
        if self._job.status is not None:
            title += f" · ended with status {self._job.status}"
        elif self.has_focus:
            title += " · keys go to it; ctrl+] for the other views"
        if self._back:
            title += f" · {self._back} lines back"
        skipped = self._backlog.skipped_bytes
        if skipped:
            title += f" · {skipped / 1e6:.1f} MB came too fast to draw"
        if self.border_title != title:
            self.border_title = title

    def on_resize(self) -> None:
        columns, rows = self.size
        if columns > 1 and rows > 0 and (columns, rows) != self.emulator.size:
            self.emulator.resize(columns, rows)
            self._job.resize(columns, rows)

    def render_line(self, y: int) -> Strip:
        at = y - self._back
        known = y < self.emulator.size[1] and -self.emulator.past <= at
        line = self.emulator.line(at, cursor=self.takes_keys) if known else [Segment("")]
        strip = Strip(line).adjust_cell_length(self.size.width, self.rich_style)
        return strip.apply_style(self.rich_style)

    # -- keys ----------------------------------------------------------------------------------

    @property
    def takes_keys(self) -> bool:
        """Every key is the job's."""
        return self.has_focus and self._job.status is None

    def on_focus(self, event: Focus) -> None:
        self._show_title()

    def on_blur(self, event: Blur) -> None:
        self._show_title()

    def on_key(self, event: Key) -> None:
        if not self.takes_keys:
            return
        event.stop()
        event.prevent_default()
        if event.key == LEAVE:
            self.post_message(self.Left())
            return
        arrows = self.emulator.has_mode(APPLICATION_CURSOR)
        data = keys.to_bytes(event.key, event.character, application_cursor=arrows)
        if data:
            self._scroll_back(-self._back)
            self._job.write(data)

    def on_paste(self, event: Paste) -> None:
        event.stop()
        data = event.text.encode()
        if self.emulator.has_mode(BRACKETED_PASTE):
            data = b"\x1b[200~" + data + b"\x1b[201~"
        self._job.write(data)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        self._scroll_back(WHEEL_LINES)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        self._scroll_back(-WHEEL_LINES)

    def _scroll_back(self, lines: int) -> None:
        self._back = max(0, min(self.emulator.past, self._back + lines))
        self._show_title()
        self.refresh()

    def job_ended(self) -> None:
        """The status has come: keys are the view's again."""
        self.catch_up()
        self._show_title()
        self.refresh()
