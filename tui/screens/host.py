"""The screen of the machine itself, when no run is alive."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from .. import draw
from ..host_feed import HostFeed
from ..model import HostSnapshot
from ..poller import Poller
from ..widgets.devices import DevicesPanel
from ..widgets.keys import KeyLine
from ..widgets.processes import TRAFFIC, ProcessesPanel

POLL_S = 1.0


class HostScreen(Screen[None]):
    """Devices and the busiest processes."""

    DEFAULT_CSS = """
    HostScreen > Static { height: auto; padding: 0 1; }
    HostScreen > ProcessesPanel { height: 1fr; max-height: 100%; }
    """

    class Ready(Message):
        """A snapshot came from the poller."""

        def __init__(self, snapshot: HostSnapshot) -> None:
            super().__init__()
            self.snapshot = snapshot

    def __init__(self, feed: HostFeed) -> None:
        super().__init__()
        self.snapshot: HostSnapshot | None = None
        self._feed = feed
        self._poller: Poller[None, HostSnapshot] | None = None

    def compose(self) -> ComposeResult:
        yield Static(_hint())
        yield DevicesPanel()
        yield ProcessesPanel(hidden=TRAFFIC)
        yield KeyLine()

    def on_mount(self) -> None:
        self._poller = Poller(
            lambda _: self._feed.snapshot(),
            lambda made: self.post_message(self.Ready(made)),
            self._feed.close,
        )
        self.set_interval(POLL_S, self._request)
        self._request()

    def on_unmount(self) -> None:
        if self._poller is not None:
            self._poller.close()

    def _request(self) -> None:
        if self._poller is not None:
            self._poller.request(None)

    def on_host_screen_ready(self, message: Ready) -> None:
        self.snapshot = message.snapshot
        self.query_one(DevicesPanel).show(message.snapshot)
        self.query_one(ProcessesPanel).show(message.snapshot)


def _hint() -> Text:
    return Text.assemble(
        ("No run is alive: this is the host.", draw.STRONG),
        "  Start one with ", ("accelprof run python train.py", draw.STRONG),
        ", see an old one with ", ("accelprof top last", draw.STRONG), ".",
    )  # fmt: skip
