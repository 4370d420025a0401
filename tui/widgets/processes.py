"""The job's processes with their roles: who computes, who waits for the disk."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll

from ...profiler.reports import figures
from ...profiler.reports.plain import clean
from .. import draw
from ..model import HostSnapshot, Process, Snapshot
from .panel import Panel

_HEAD = ("PID", "ROLE", "CPU", "", "STATE", "MEMORY", "READ", "WRITE", "THR", "COMMAND")
_RIGHT = (0, 2, 5, 6, 7, 8)


class ProcessTable(Panel[Snapshot | HostSnapshot]):
    """One line a process."""

    DEFAULT_CSS = """
    ProcessTable { border: none; }
    """

    def draw(self, snapshot: Snapshot | HostSnapshot) -> Text:
        if not snapshot.processes:
            return Text("no process was sampled at this moment", draw.QUIET)
        return draw.table(
            _HEAD, [_row(process) for process in snapshot.processes], _RIGHT, self.size.width
        )


def _row(process: Process) -> tuple[str | Text, ...]:
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


class ProcessesPanel(VerticalScroll):
    """The table, scrolled."""

    DEFAULT_CSS = """
    ProcessesPanel {
        height: 1fr;
        border-top: solid $primary-muted;
        border-title-color: $text-accent;
        border-title-style: bold;
        scrollbar-size-vertical: 1;
    }
    """

    def compose(self) -> ComposeResult:
        yield ProcessTable()

    def on_mount(self) -> None:
        self.border_title = "processes"

    def show(self, snapshot: Snapshot | HostSnapshot) -> None:
        """Draws this from now on."""
        self.border_title = f"processes ({len(snapshot.processes)})"
        self.query_one(ProcessTable).show(snapshot)
