"""The accelerators one by one: readings now, and the chosen one's over time."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.reactive import reactive

from ...profiler.reports import figures
from ...profiler.reports.plain import clean
from .. import draw
from ..model import Accelerator, DeviceTrends, Snapshot
from ..widgets.devices import throttling
from ..widgets.panel import Panel
from ..widgets.rows import Rows
from .view import View

_HEAD = ("DEV", "BUSY", "", "MEMORY", "", "POWER", "TEMP", "SLOWED BY", "SM", "TENSOR", "DRAM",
         "CLOCK", "LINK", "NAME")  # fmt: skip
_RIGHT = (1, 3, 5, 6, 8, 9, 10, 11)
_GIVES_WAY = (4, 12, 11, 2, 13, 10, 9, 8)
# Reading, its name, how its figures are written; the top of its chart is 1 for shares
_CHARTS = (
    ("busy_share", "busy", figures.share), ("memory_used_bytes", "memory", figures.size),
    ("power_w", "power", figures.power), ("sm_share", "SMs", figures.share),
    ("tensor_share", "tensor cores", figures.share), ("dram_share", "DRAM", figures.share),
    ("memory_busy_share", "memory controller", figures.share),
    ("temperature_c", "temperature", lambda value: f"{figures.number(value)} °C"),
    ("sm_clock_hz", "clock", lambda value: f"{figures.number((value or 0) / 1e6)} MHz"),
)  # fmt: skip
_NONE = "this run has no accelerator that is read; the CPU's load is under 7 host"


class DevicesView(View):
    """A line a device, and charts of the chosen one."""

    NAME = "devices"
    DEFAULT_CSS = """
    DevicesView Rows { height: auto; max-height: 40%; min-height: 4; }
    DevicesView DeviceCharts { height: 1fr; }
    """

    def compose(self) -> ComposeResult:
        yield Rows(_HEAD, _RIGHT, _GIVES_WAY, empty=_NONE, id="device-rows")
        yield DeviceCharts()

    def show(self, snapshot: Snapshot) -> None:
        found = snapshot.machine.accelerators
        self.query_one(Rows).fill([_row(item) for item in found], f"devices ({len(found)})")
        self.query_one(DeviceCharts).show(snapshot)

    def on_rows_chosen(self, message: Rows.Chosen) -> None:
        self.query_one(DeviceCharts).chosen = message.at


def _row(item: Accelerator) -> tuple[str | Text, ...]:
    used = item.memory_used_bytes
    full = used / item.memory_total_bytes if used is not None and item.memory_total_bytes else None
    limit = f"/{item.power_limit_w:.0f}" if item.power_limit_w else ""
    power = figures.UNKNOWN if item.power_w is None else f"{item.power_w:.0f}{limit} W"
    temp = figures.UNKNOWN if item.temperature_c is None else f"{item.temperature_c:.0f} °C"
    clock = figures.UNKNOWN if item.sm_clock_hz is None else f"{item.sm_clock_hz / 1e6:.0f} MHz"
    return (
        f"{item.kind} {item.index}", figures.share(item.busy), draw.meter(item.busy, 8),
        figures.size(used), draw.meter(full, 6), power, temp, throttling(item),
        figures.share(item.sm), figures.share(item.tensor), figures.share(item.dram), clock,
        item.link or figures.UNKNOWN, clean(item.name, 60),
    )  # fmt: skip


class DeviceCharts(Panel[Snapshot]):
    """The chosen device over the columns of the timeline."""

    TITLE = "over time"
    chosen: reactive[int] = reactive(0)

    def title(self, snapshot: Snapshot) -> str:
        found = snapshot.machine.accelerators
        if not found:
            return self.TITLE
        item = found[min(self.chosen, len(found) - 1)]
        return f"{item.kind} {item.index} over time"

    def watch_chosen(self) -> None:
        if self.seen is not None:
            self.show(self.seen)

    def draw(self, snapshot: Snapshot, width: int, height: int) -> list[Text]:
        found, trends = snapshot.machine.accelerators, snapshot.details.get("devices")
        if not found or not isinstance(trends, DeviceTrends):
            return [Text("…", draw.QUIET)] if found else []
        item = found[min(self.chosen, len(found) - 1)]
        readings = trends.of.get(item.index, {})
        known = [c for c in _CHARTS if any(v is not None for v in readings.get(c[0], ()))]
        if not known:
            return draw.notes("no readings of this device in this stretch of time", width)
        known = known[: max(1, (height - 1) // 2)]  # a title and a line of chart each, at least
        each = max(1, min(6, (height - 1) // len(known) - 1))
        lines: list[Text] = []
        for name, label, write in known:
            values = readings[name]
            top = _top(name, item, [v for v in values if v is not None])
            newest = next((v for v in reversed(values) if v is not None), None)
            lines.append(Text.assemble(
                (label, draw.STRONG), f"  {write(newest)}", (f"  top of the chart {write(top)}",
                                                             draw.QUIET),
            ))  # fmt: skip
            lines += draw.chart(values, width, each, top)
        start, end = figures.clock(trends.from_s), figures.clock(trends.to_s)
        return [*lines[: max(1, height - 1)], draw.axis(width, start, end, None)]


def _top(name: str, item: Accelerator, values: list[float]) -> float:
    """What the height of a chart stands for: a share's whole, a limit, else the largest value."""
    if name.endswith("_share"):
        return 1.0
    limit = {
        "memory_used_bytes": item.memory_total_bytes, "power_w": item.power_limit_w,
        "temperature_c": 100,
    }.get(name)  # fmt: skip
    return float(limit or max(values) or 1.0)
