"""The screen of one run, live or replayed."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer

from ...storage.reader import BadRunFile, QueryError, RunReader
from ..feed import RunFeed, failed
from ..model import Snapshot
from ..poller import Poller
from ..widgets.devices import DevicesPanel
from ..widgets.findings import FindingsPanel
from ..widgets.header import RunHeader
from ..widgets.panel import Panel
from ..widgets.processes import ProcessesPanel
from ..widgets.shares import SharesPanel
from ..widgets.steps import StepChart
from ..widgets.timeline import Timeline
from ..widgets.verdict import VerdictPanel

TICK_S = 0.2
POLL_TICKS = 5  # a live run is read once a second
PLAY_S = 60.0  # a replay takes about a minute, and never less than real time
SEEKS = 60  # presses of a key from one end to the other
_PANELS = ("-findings", "-processes", "-devices")
Request = tuple[int | None, int]


class RunScreen(Screen[None]):
    """Draws snapshots that its poller makes; holds only the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # With priority: a focused list would take the arrows for itself
        Binding("space", "play", "play", priority=True),
        Binding("left", "seek(-1)", "seek", key_display="← →", priority=True),
        Binding("right", "seek(1)", show=False, priority=True),
        Binding("shift+left", "seek(-10)", show=False, priority=True),
        Binding("shift+right", "seek(10)", show=False, priority=True),
        Binding("home", "start", show=False, priority=True),
        Binding("end", "end", show=False, priority=True),
        Binding("p", "panel", "panel"),
    ]

    class Ready(Message):
        """A snapshot came from the poller."""

        def __init__(self, snapshot: Snapshot) -> None:
            super().__init__()
            self.snapshot = snapshot

    class Failed(Message):
        """The run cannot be read, or no longer."""

        def __init__(self, problem: str) -> None:
            super().__init__()
            self.problem = problem

    def __init__(self, reader: RunReader, feed: RunFeed | None = None) -> None:
        super().__init__()
        self.snapshot: Snapshot | None = None
        self._reader = reader
        self._feed = feed or RunFeed(reader)
        self._poller: Poller[Request, Snapshot | str] | None = None
        self._cursor_ns: int | None = None  # None: the newest moment
        self._playing = False
        self._ticks = 0

    def compose(self) -> ComposeResult:
        yield RunHeader()
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield VerdictPanel()
                yield SharesPanel()
                yield Timeline()
                yield StepChart()
            with Vertical(id="right"):
                yield DevicesPanel()
                yield ProcessesPanel()
                yield FindingsPanel()
        yield Footer()

    def on_mount(self) -> None:
        self.add_class(_PANELS[0])
        self.query_one(FindingsPanel).focus()
        self._poller = Poller(self._make, self._deliver, self._reader.close)
        self.set_interval(TICK_S, self._tick)
        self.call_after_refresh(self._request)

    def on_unmount(self) -> None:
        if self._poller is not None:
            self._poller.close()

    # -- snapshots: made on the poller's thread, shown on this one -----------------------------

    def _make(self, request: Request) -> Snapshot | str:
        try:
            return self._feed.snapshot(*request)
        except (BadRunFile, QueryError, OSError) as error:
            return str(error)

    def _deliver(self, made: Snapshot | str) -> None:
        self.post_message(self.Failed(made) if isinstance(made, str) else self.Ready(made))

    def _request(self) -> None:
        if self._poller is not None:
            width = self.query_one(Timeline).content_size.width or self.size.width
            self._poller.request((self._cursor_ns, max(20, width)))

    def on_run_screen_ready(self, message: Ready) -> None:
        self._show(message.snapshot)

    def on_run_screen_failed(self, message: Failed) -> None:
        if self.snapshot is None:
            self.app.exit(message=message.problem)
        else:
            self._show(failed(self.snapshot, message.problem))

    def _show(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        for panel in self.query("#left > *, #right > *"):
            assert isinstance(panel, Panel | ProcessesPanel | FindingsPanel)
            panel.show(snapshot)
        self._show_header()

    def _show_header(self) -> None:
        if self.snapshot is not None:
            self.query_one(RunHeader).show(self.snapshot, self._replay_text(self.snapshot))

    def _replay_text(self, snapshot: Snapshot) -> str:
        if self._playing:
            return f"▶ {self._speed(snapshot):.0f}x"
        if self._cursor_ns is not None:
            return "paused"
        return ""

    # -- the cursor ----------------------------------------------------------------------------

    def on_resize(self) -> None:
        self._request()

    def _tick(self) -> None:
        self._ticks += 1
        if self._playing and self.snapshot is not None:
            self._move(int(TICK_S * self._speed(self.snapshot) * 1e9))
        elif self.snapshot is not None and self.snapshot.live and self._ticks % POLL_TICKS == 0:
            self._request()

    def _speed(self, snapshot: Snapshot) -> float:
        return max(1.0, snapshot.length_s / PLAY_S)

    def _move(self, by_ns: int) -> None:
        seen = self.snapshot
        if seen is None:
            return
        at = seen.ended_ns if self._cursor_ns is None else self._cursor_ns
        at = max(seen.started_ns, at + by_ns)
        if at >= seen.ended_ns:
            self._cursor_ns, self._playing = None, False
        else:
            self._cursor_ns = at
        self._show_header()
        self._request()

    def action_play(self) -> None:
        """Plays from the cursor, from the start when it stands at the end; or pauses."""
        if self.snapshot is None:
            return
        self._playing = not self._playing
        if self._playing and self._cursor_ns is None:
            self._cursor_ns = self.snapshot.started_ns
        self._show_header()
        self._request()

    def action_seek(self, presses: int) -> None:
        """Moves the cursor by a part of the run."""
        if self.snapshot is not None:
            length = self.snapshot.ended_ns - self.snapshot.started_ns
            self._move(presses * max(1_000_000_000, length // SEEKS))

    def action_start(self) -> None:
        """Moves the cursor to the start."""
        if self.snapshot is not None:
            self._cursor_ns = self.snapshot.started_ns
            self._move(0)

    def action_end(self) -> None:
        """Moves the cursor to the newest moment."""
        self._cursor_ns, self._playing = None, False
        self._show_header()
        self._request()

    def action_panel(self) -> None:
        """Shows the next of the panels that a small terminal has room for one of."""
        at = next((at for at, name in enumerate(_PANELS) if self.has_class(name)), -1)
        self.remove_class(*_PANELS)
        shown = _PANELS[(at + 1) % len(_PANELS)]
        self.add_class(shown)
        self.query_one(ProcessesPanel if shown == "-processes" else FindingsPanel).focus()
