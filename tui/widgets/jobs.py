"""The jobs that the host's recorder saw, newest first."""

from __future__ import annotations

from rich.text import Text

from ...profiler.report import HostJob
from ...profiler.reports import figures
from ...profiler.reports.plain import clean
from ..model import Snapshot
from .rows import Row, Rows

_HEAD = ("JOB", "USER", "STARTED (UTC)", "TOOK", "CORES", "MEMORY", "COMMAND")
_RIGHT = (3, 4, 5)
_GIVES_WAY = (4, 1)


class JobsPanel(Rows):
    """One line a job; of a run's recording nothing."""

    def __init__(self) -> None:
        super().__init__(_HEAD, _RIGHT, _GIVES_WAY, chooses=False, empty="no job was seen yet")

    def on_mount(self) -> None:
        self.border_title = "jobs"

    def show(self, snapshot: Snapshot) -> None:
        """Draws this from now on."""
        jobs = snapshot.report.jobs
        running = sum(job.ended_at is None for job in jobs)
        self.fill([_row(job) for job in jobs], f"jobs ({len(jobs)}, {running} running)")


def _row(job: HostJob) -> Row:
    took = figures.seconds(job.wall_s) if job.ended_at else Text("running", "bold #009E73")
    return (
        clean(job.name, 20),
        clean(job.user, 10),
        figures.moment(job.started_at).removesuffix(" UTC")[5:],
        took,
        figures.number(job.cpu_cores),
        figures.size(job.host_peak_bytes),
        clean(job.command, 200),
    )
