"""The jobs that the host's recorder saw, newest first."""

from __future__ import annotations

from rich.text import Text

from ...profiler.report import HostJob
from ...profiler.reports import figures
from ...profiler.reports.plain import clean
from .. import draw
from ..model import Snapshot
from .panel import Panel

_HEAD = ("JOB", "USER", "STARTED (UTC)", "TOOK", "CORES", "MEMORY", "COMMAND")
_RIGHT = (3, 4, 5)


class JobsPanel(Panel[Snapshot]):
    """One line a job; of a run's recording nothing."""

    DEFAULT_CSS = """
    JobsPanel { height: 1fr; }
    """
    TITLE = "jobs"

    def title(self, snapshot: Snapshot) -> str:
        running = sum(job.ended_at is None for job in snapshot.report.jobs)
        return f"jobs ({len(snapshot.report.jobs)}, {running} running)"

    def draw(self, snapshot: Snapshot) -> Text:
        jobs = snapshot.report.jobs
        if not jobs:
            return Text("no job was seen yet", draw.QUIET)
        width, height = self.size
        return draw.table(_HEAD, [_row(job) for job in jobs[: max(1, height - 1)]], _RIGHT, width)


def _row(job: HostJob) -> tuple[str | Text, ...]:
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
