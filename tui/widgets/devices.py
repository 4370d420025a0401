"""The machine: accelerators where there are some, and the host's CPUs."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from ...profiler.reports import figures
from ...profiler.reports.plain import clean, fit
from .. import draw
from ..model import Accelerator, HostSnapshot, Machine, Snapshot
from .panel import Panel

_NAME = 7  # cells


class DevicesPanel(Panel[Snapshot | HostSnapshot]):
    """A line an accelerator, a line for the CPUs, a cell a core."""

    TITLE = "devices"

    def draw(self, snapshot: Snapshot | HostSnapshot, width: int, height: int) -> list[Text]:
        machine = snapshot.machine
        lines = [_accelerator(item, width) for item in machine.accelerators]
        lines.append(_host(machine, width))
        lines += core_lines(machine, width, 4 if self.screen.has_class("-tall") else 1)
        return lines


def core_lines(machine: Machine, width: int, most_rows: int) -> Iterator[Text]:
    """A meter a core where there is room, else a cell a core."""
    room = max(8, width - _NAME)
    picture = draw.core_meters(machine.cores, room, most_rows)
    if picture is None:
        picture = draw.core_strip(machine.cores, room)
    for at, line in enumerate(picture):
        name = "cores" if at == 0 else ""
        yield Text.assemble((name.ljust(_NAME), draw.QUIET), line)


def _accelerator(item: Accelerator, width: int) -> Text:
    line = Text.assemble((f"{item.kind} {item.index}".ljust(_NAME), draw.QUIET))
    line.append_text(draw.meter(item.busy, 10))
    line.append(f" {figures.share(item.busy)}".ljust(8))
    parts = [_of(item.memory_used_bytes, item.memory_total_bytes)]
    if item.throttle:
        parts.append(f"slowed: {', '.join(item.throttle)}")
    if item.power_w is not None:
        limit = f" of {item.power_limit_w:.0f}" if item.power_limit_w else ""
        parts.append(f"{item.power_w:.0f}{limit} W")
    if item.temperature_c is not None:
        parts.append(f"{item.temperature_c:.0f} °C")
    parts.append(fit(clean(item.name), 24))
    line.append("  ".join(parts))
    line.truncate(width, overflow="ellipsis")
    return line


def throttling(item: Accelerator) -> Text:
    """What slows a device down, `no` when nothing does."""
    if item.throttle is None:
        return Text(figures.UNKNOWN)
    return Text(", ".join(item.throttle), draw.ALARM) if item.throttle else Text("no", draw.QUIET)


def _host(machine: Machine, width: int) -> Text:
    if machine.cpu is None and machine.memory_total_bytes is None:
        return Text("the host was not sampled at this moment", draw.QUIET)
    line = Text.assemble(("cpu".ljust(_NAME), draw.QUIET))
    line.append_text(draw.meter(machine.cpu, 10))
    line.append(f" {figures.share(machine.cpu)}".ljust(8))
    parts = [_of(machine.memory_used_bytes, machine.memory_total_bytes)]
    if machine.iowait is not None:
        parts.append(f"iowait {figures.share(machine.iowait)}")
    if machine.read_bytes_per_s is not None:
        parts.append(f"disk read {figures.bandwidth(machine.read_bytes_per_s)}")
    if machine.write_bytes_per_s is not None:
        parts.append(f"write {figures.bandwidth(machine.write_bytes_per_s)}")
    line.append("  ".join(parts))
    line.truncate(width, overflow="ellipsis")
    return line


def _of(used: int | None, total: int | None) -> str:
    return f"{figures.size(used)} of {figures.size(total)}"
