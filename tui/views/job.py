"""The job's own terminal, in a run that was started with --tui."""

from __future__ import annotations

from textual.app import ComposeResult

from ..model import Snapshot
from ..pty.job import PtyJob
from ..widgets.terminal import JobTerminal
from .view import View


class JobView(View):
    """Its terminal and nothing else; the header above tells how the run goes."""

    NAME = "job"

    def __init__(self, job: PtyJob, columns: int, rows: int) -> None:
        super().__init__()
        self.terminal = JobTerminal(job, columns, rows)

    def compose(self) -> ComposeResult:
        yield self.terminal

    def show(self, snapshot: Snapshot) -> None:
        """The terminal draws itself when the job writes."""
