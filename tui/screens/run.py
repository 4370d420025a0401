"""The screen of one run, live or replayed: a header, the line of views, the view that is shown."""

from __future__ import annotations

from typing import ClassVar, Protocol

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widgets import ContentSwitcher

from ...storage.reader import BadRunFile, QueryError
from ..details import DETAILS
from ..feed import failed
from ..model import Request, Snapshot
from ..poller import Poller
from ..replay import Replay
from ..views import VIEWS, View
from ..views.findings import FindingsView
from ..views.job import JobView
from ..views.overview import OverviewView
from ..widgets.header import RunHeader
from ..widgets.keys import KeyLine
from ..widgets.nav import Nav
from ..widgets.timeline import Timeline

TICK_S = 0.2
POLL_TICKS = 5  # a live run is read once a second
FIRST = OverviewView.NAME
_BY_KEY: tuple[type[View], ...] = (JobView, *VIEWS)


class Feed(Protocol):
    """As `RunFeed`: called on the poller's thread."""

    def snapshot(self, request: Request) -> Snapshot: ...

    def close(self) -> None: ...


class RunScreen(Screen[None]):
    """Draws snapshots that its poller makes; holds only the cursor and which view is shown."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(at), f"view('{view.NAME}')", show=False)
          for at, view in enumerate(_BY_KEY)),
        Binding("tab", "next(1)", "view", key_display="1-9", priority=True),
        Binding("shift+tab", "next(-1)", show=False, priority=True),
        # With priority: a focused list would take the arrows for itself
        Binding("space", "play", "play", priority=True),
        Binding("left", "seek(-1)", "seek", key_display="← →", priority=True),
        Binding("right", "seek(1)", show=False, priority=True),
        Binding("shift+left", "seek(-10)", show=False, priority=True),
        Binding("shift+right", "seek(10)", show=False, priority=True),
        Binding("home", "start", show=False, priority=True),
        Binding("end", "end", show=False, priority=True),
        Binding("p", "panel", "panel"),
    ]  # fmt: skip

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

    def __init__(self, feed: Feed, *, job: JobView | None = None) -> None:
        """`job`: the terminal of a job that was started with this view."""
        super().__init__()
        self.snapshot: Snapshot | None = None
        self.replay = Replay()
        self.asked: Request | None = None  # of the poller, the last time
        self._feed = feed
        self._job = job
        self._poller: Poller[Request, Snapshot | str] | None = None
        self._ticks = 0

    def compose(self) -> ComposeResult:
        yield RunHeader()
        own = [("0", JobView.NAME)] if self._job else []
        yield Nav([*own, *((str(at), view.NAME) for at, view in enumerate(VIEWS, 1))])
        with ContentSwitcher(initial=JobView.NAME if self._job else FIRST, id="views"):
            if self._job is not None:
                yield self._job
            for view in VIEWS:
                yield view()
        yield KeyLine()

    def on_mount(self) -> None:
        self.query_one(Nav).current = self.shown.NAME
        self.shown.start()
        self._poller = Poller(self._make, self._deliver, self._feed.close)
        self.set_interval(TICK_S, self._tick)
        self.call_after_refresh(self._request)

    def on_unmount(self) -> None:
        if self._poller is not None:
            self._poller.close()

    # -- views -------------------------------------------------------------------------------

    @property
    def shown(self) -> View:
        """The view in front."""
        found = self.query_one(ContentSwitcher).visible_content
        assert isinstance(found, View)
        return found

    def action_view(self, name: str) -> None:
        """Brings a view to the front, with what is known of it so far."""
        if name == JobView.NAME and self._job is None:
            return
        self.query_one(ContentSwitcher).current = name
        self.query_one(Nav).current = name
        if self.snapshot is not None:
            self.shown.show(self.snapshot)
        self.shown.start()
        if name in DETAILS:  # once what is known is on the screen: reading would delay that
            self.call_after_refresh(self._ask, self._wish())

    def action_next(self, by: int) -> None:
        """The view beside."""
        names = [name for _, name in self.query_one(Nav).views]
        self.action_view(names[(names.index(self.shown.NAME) + by) % len(names)])

    def action_panel(self) -> None:
        """The next panel of a small overview."""
        if isinstance(self.shown, OverviewView):
            self.shown.next_panel()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """`p` is for the overview, and only where it has no room for all panels."""
        if self._job is not None and self._job.terminal.takes_keys:
            return False
        if action == "panel":
            roomy = self.has_class("-wide") or self.has_class("-tall")
            return isinstance(self.shown, OverviewView) and not roomy
        return True

    def on_job_terminal_left(self) -> None:
        self.action_view(FIRST)

    def on_findings_view_why(self, message: FindingsView.Why) -> None:
        self.action_view(message.view)

    # -- snapshots: made on the poller's thread, shown on this one -----------------------------

    def _make(self, request: Request) -> Snapshot | str:
        try:
            return self._feed.snapshot(request)
        except (BadRunFile, QueryError, OSError) as error:
            return str(error)

    def _deliver(self, made: Snapshot | str) -> None:
        self.post_message(self.Failed(made) if isinstance(made, str) else self.Ready(made))

    def _wish(self) -> Request:
        width = self.query_one(Timeline).content_size.width or self.size.width
        self.asked = Request(self.replay.at_ns, max(20, width), self.shown.NAME)
        return self.asked

    def _request(self) -> None:
        self._ask(self._wish())

    def _ask(self, wish: Request) -> None:
        if self._poller is not None:
            self._poller.request(wish)

    def on_run_screen_ready(self, message: Ready) -> None:
        self.show(message.snapshot)

    def on_run_screen_failed(self, message: Failed) -> None:
        if self.snapshot is not None:
            self.show(failed(self.snapshot, message.problem))
        elif self._job is None:
            self.app.exit(message=message.problem)
        else:
            self.query_one(RunHeader).wait_for(message.problem)

    def show(self, snapshot: Snapshot) -> None:
        """Draws this from now on."""
        self.snapshot = snapshot
        self.shown.show(snapshot)
        self._show_header()

    def _show_header(self) -> None:
        if self.snapshot is not None:
            self.query_one(RunHeader).show(self.snapshot, self.replay.text(self.snapshot))

    # -- the cursor ----------------------------------------------------------------------------

    def on_resize(self) -> None:
        self._request()

    def _tick(self) -> None:
        self._ticks += 1
        if self.replay.playing and self.snapshot is not None:
            self.replay.tick(self.snapshot, TICK_S)
            self._moved()
        elif (self.snapshot is None or self.snapshot.live) and self._ticks % POLL_TICKS == 0:
            self._request()

    def _moved(self) -> None:
        self._show_header()
        self._request()

    def action_play(self) -> None:
        """Plays, or pauses."""
        if self.snapshot is not None:
            self.replay.toggle(self.snapshot)
            self._moved()

    def action_seek(self, presses: int) -> None:
        """Moves the cursor by a part of the run."""
        if self.snapshot is not None:
            self.replay.seek(self.snapshot, presses)
            self._moved()

    def action_start(self) -> None:
        """Moves the cursor to the start."""
        if self.snapshot is not None:
            self.replay.go(self.snapshot, self.snapshot.started_ns)
            self._moved()

    def action_end(self) -> None:
        """Moves the cursor to the newest moment."""
        self.replay.end()
        self._moved()

    def on_timeline_sought(self, message: Timeline.Sought) -> None:
        if self.snapshot is not None:
            self.replay.go(self.snapshot, message.at_ns)
            self._moved()
