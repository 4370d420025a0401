"""How batches are made, and how training waits for them."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult

from ...profiler.diagnosis.model import Loader
from ...profiler.reports import figures
from ...profiler.reports.plain import clean, wrap
from .. import draw
from ..model import InputView as Input
from ..model import Process, Snapshot, Worker
from ..widgets.panel import Panel
from ..widgets.rows import Rows
from .view import View

_HEAD = ("WORKER", "BATCHES", "MEAN", "SLOWEST", "CPU", "MAKING", "", "STATE", "MEMORY",
         "READ", "COLLATE", "PID")  # fmt: skip
_RIGHT = (0, 1, 2, 3, 4, 5, 8, 9, 10, 11)
_GIVES_WAY = (10, 11, 6, 9, 3)


class InputView(View):
    """The loader, the balance of making and using, the workers, the lines that cost most."""

    NAME = "input"
    DEFAULT_CSS = """
    InputView LoaderPanel { height: auto; }
    InputView Rows { height: 1fr; min-height: 5; }
    InputView HotspotsPanel { height: auto; max-height: 8; }
    """

    def compose(self) -> ComposeResult:
        yield LoaderPanel()
        yield Rows(_HEAD, _RIGHT, _GIVES_WAY, chooses=False, id="worker-rows",
                   empty="no batch was seen made in the last minute")  # fmt: skip
        yield HotspotsPanel()

    def show(self, snapshot: Snapshot) -> None:
        self.query_one(LoaderPanel).show(snapshot)
        self.query_one(HotspotsPanel).show(snapshot)
        found = snapshot.details.get("input")
        if isinstance(found, Input):
            states = {process.pid: process for process in snapshot.processes}
            rows = [_row(worker, states.get(worker.pid)) for worker in found.workers]
            self.query_one(Rows).fill(rows, "workers, last minute")


def _row(worker: Worker, process: Process | None) -> tuple[str | Text, ...]:
    return (
        "main" if worker.number < 0 else str(worker.number), figures.count(worker.batches),
        figures.milliseconds(worker.fetch_ms), figures.milliseconds(worker.slowest_ms),
        figures.share(worker.cpu_share), figures.share(worker.busy_share),
        draw.meter(worker.busy_share, 8, warns=False),
        draw.state(process.state if process else None),
        figures.size(process.rss_bytes if process else None),
        figures.bandwidth(process.read_bytes_per_s if process else None),
        figures.milliseconds(worker.collate_ms), str(worker.pid),
    )  # fmt: skip


class LoaderPanel(Panel[Snapshot]):
    """Which loader, how often training found no batch ready, what a batch costs."""

    TITLE = "loader and queue"

    def draw(self, snapshot: Snapshot, width: int, height: int) -> list[Text]:
        found = snapshot.details.get("input")
        if not isinstance(found, Input):
            return [Text("…", draw.QUIET)]
        rows = [("loader", _loader(found.chosen))]
        if len(found.loaders) > 1:
            rows.append(("", f"and {figures.count(len(found.loaders) - 1, 'more loader')}"))
        rows.append(("queue", _queue(found)))
        if found.room is not None:
            rows += _balance(found)
        lines = [
            Text.assemble(((name if at == 0 else "").ljust(9), draw.QUIET), line)
            for name, text in rows
            for at, line in enumerate(wrap(clean(text), max(1, width - 9), 2))
        ]
        trend = draw.sparkline(found.waits, max(4, width - 9), 1.0)
        return [*lines, Text.assemble(("waiting".ljust(9), draw.QUIET), trend)]


def _loader(loader: Loader | None) -> str:
    if loader is None:
        return "no DataLoader was seen"
    parts = [
        f"{name}={value}"
        for name, value in (
            ("num_workers", loader.num_workers), ("batch_size", loader.batch_size),
            ("prefetch_factor", loader.prefetch), ("persistent_workers", loader.persistent),
        )
        if value is not None
    ]  # fmt: skip
    text = f"DataLoader({', '.join(parts)})"
    text += f" at {loader.where}" if loader.where else ""
    return text + (f", {figures.count(loader.length, 'batch', 'batches')}" if loader.length else "")


def _queue(found: Input) -> str:
    if not found.steps:
        return "no step with a known wait in the last minute"
    return (
        f"empty at {figures.count(found.waited)} of {figures.count(found.steps, 'step')} of the "
        f"last minute; wait p50 {figures.milliseconds(found.wait_p50_ms)}, "
        f"p95 {figures.milliseconds(found.wait_p95_ms)}"
    )


def _balance(found: Input) -> list[tuple[str, str]]:
    room = found.room
    assert room is not None
    cost = f"{figures.seconds(room.batch_s)} to make what a step uses"
    if room.batch_cpu_s is not None:
        cost += f", {figures.seconds(room.batch_cpu_s)} of it CPU"
    used = f"mean step {figures.seconds(room.step_s)}"
    used += f", {figures.seconds(room.work_s)} without waiting"
    if room.free_cores is not None:
        used += f"; {room.free_cores:.1f} of {room.cpus} cores free"
    return [("making", cost), ("using", used)]


class HotspotsPanel(Panel[Snapshot]):
    """The lines that input spends its time in, from stacks."""

    TITLE = "lines that make the batches"

    def draw(self, snapshot: Snapshot, width: int, height: int) -> list[Text]:
        spots = snapshot.report.hotspots.input
        if not spots:
            return draw.notes("no stacks of input so far", width)
        lines = []
        for spot in spots[:5]:
            line = draw.meter(spot.share, 10)
            line.append(f" {figures.share(spot.share):>5}  {clean(spot.where, 200)}")
            line.truncate(width, overflow="ellipsis")
            lines.append(line)
        return lines
