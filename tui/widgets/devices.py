"""The machine: accelerators where there are some, and the host's CPUs."""

from __future__ import annotations

from rich.text import Text

from ...profiler.reports import figures
from ...profiler.reports.plain import clean, fit
from .. import draw
from ..model import Accelerator, HostSnapshot, Machine, Snapshot
from .panel import Panel


class DevicesPanel(Panel[Snapshot | HostSnapshot]):
    """A line an accelerator, a line for the CPUs, a cell a core."""

    TITLE = "devices"

    def draw(self, snapshot: Snapshot | HostSnapshot) -> Text:
        width = self.size.width
        machine = snapshot.machine
        lines = [_accelerator(item, width) for item in machine.accelerators]
        lines.append(_host(machine, width))
        if machine.cores:
            cores = draw.cores(machine.cores, max(8, width - 7)).split("\n")
            for at, line in enumerate(cores):
                lines.append(Text.assemble(("cores  " if at == 0 else " " * 7, draw.QUIET), line))
        return Text("\n", no_wrap=True).join(lines)


def _accelerator(item: Accelerator, width: int) -> Text:
    line = Text.assemble((f"gpu {item.index}".ljust(7), draw.QUIET))
    line.append_text(draw.meter(item.busy, 10))
    line.append(f" {figures.share(item.busy)}".ljust(8))
    parts = [_of(item.memory_used_bytes, item.memory_total_bytes)]
    if item.power_w is not None:
        limit = f" of {item.power_limit_w:.0f}" if item.power_limit_w else ""
        parts.append(f"{item.power_w:.0f}{limit} W")
    if item.temperature_c is not None:
        parts.append(f"{item.temperature_c:.0f} °C")
    parts.append(fit(clean(item.name), 24))
    line.append("  ".join(parts))
    line.truncate(width, overflow="ellipsis")
    return line


def _host(machine: Machine, width: int) -> Text:
    line = Text.assemble(("cpu    ", draw.QUIET))
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
