"""The job's processes with their roles: who computes, who waits for the disk."""

from __future__ import annotations

from collections.abc import Sequence

from ...profiler.reports import figures
from ...profiler.reports.plain import clean
from .. import draw
from ..model import HostSnapshot, Process, Snapshot
from .rows import Row, Rows

_HEAD = ("PID", "ROLE", "CPU", "", "STATE", "MEMORY", "READ", "WRITE", "THR", "COMMAND")
_RIGHT = (0, 2, 5, 6, 7, 8)
TRAFFIC = (6, 7)  # columns that only a recorder fills
_GIVES_WAY = (8, 3, 7, 9, 6, 4)


class ProcessesPanel(Rows):
    """One line a process."""

    def __init__(self, *, hidden: Sequence[int] = ()) -> None:
        super().__init__(_HEAD, _RIGHT, _GIVES_WAY, hidden=hidden, chooses=False,
                         empty="no process was sampled at this moment")  # fmt: skip

    def on_mount(self) -> None:
        self.border_title = "processes"

    def show(self, snapshot: Snapshot | HostSnapshot) -> None:
        """Draws this from now on."""
        found = snapshot.processes
        self.fill([_row(process) for process in found], f"processes ({len(found)})")


def _row(process: Process) -> Row:
    return (
        str(process.pid),
        process.role,
        figures.UNKNOWN if process.cpu_cores is None else f"{process.cpu_cores:.2f}",
        draw.meter(process.cpu_cores, 6),
        draw.state(process.state),
        figures.size(process.rss_bytes),
        figures.bandwidth(process.read_bytes_per_s),
        figures.bandwidth(process.write_bytes_per_s),
        figures.count(process.threads),
        clean(process.command, 200),
    )
