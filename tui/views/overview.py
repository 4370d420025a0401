"""All of a run at a glance."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from ..model import Snapshot
from ..widgets.devices import DevicesPanel
from ..widgets.findings import FindingsPanel
from ..widgets.jobs import JobsPanel
from ..widgets.panel import Panel
from ..widgets.processes import ProcessesPanel
from ..widgets.shares import SharesPanel
from ..widgets.steps import StepChart
from ..widgets.timeline import Timeline
from ..widgets.verdict import VerdictPanel
from .view import View

_PANELS = ("-findings", "-processes", "-devices")
_OF_HOST = "-of-host"


class OverviewView(View):
    """Verdict, phases over time, devices, workers, advice; of a host its jobs and devices."""

    NAME = "overview"

    def __init__(self) -> None:
        super().__init__()
        self._seen: Snapshot | None = None

    def compose(self) -> ComposeResult:
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield JobsPanel()
                yield VerdictPanel()
                yield SharesPanel()
                yield Timeline()
                yield StepChart()
            with Vertical(id="right"):
                yield DevicesPanel()
                yield ProcessesPanel()
                yield FindingsPanel()

    def on_mount(self) -> None:
        self.add_class(_PANELS[0])

    def start(self) -> None:
        chosen = ProcessesPanel if self.has_class(_PANELS[1]) else FindingsPanel
        self.screen.set_focus(self.query_one(chosen), scroll_visible=False)

    def show(self, snapshot: Snapshot) -> None:
        if snapshot.of_host and not self.has_class(_OF_HOST):
            self.remove_class(*_PANELS)
            self.add_class(_OF_HOST, _PANELS[-1])
            self.call_after_refresh(self._show_again)
        self._seen = snapshot
        for panel in self.query("#left > *, #right > *"):
            assert isinstance(panel, Panel | JobsPanel | ProcessesPanel | FindingsPanel)
            if panel.display:
                panel.show(snapshot)

    def next_panel(self) -> None:
        """Shows the next of the panels that a small terminal has room for one of."""
        at = next((at for at, name in enumerate(_PANELS) if self.has_class(name)), -1)
        self.remove_class(*_PANELS)
        self.add_class(_PANELS[(at + 1) % len(_PANELS)])
        self.call_after_refresh(self._show_again)
        self.start()

    def _show_again(self) -> None:
        """A panel that was hidden has not been told the newest."""
        if self._seen is not None:
            self.show(self._seen)
