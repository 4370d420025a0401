"""The host and the job's processes."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text
from textual.app import ComposeResult

from ...profiler.reports import figures
from ...profiler.reports.plain import fit, wrap
from .. import draw
from ..model import Machine, Snapshot
from ..widgets.devices import core_lines
from ..widgets.panel import Panel
from ..widgets.processes import ProcessesPanel
from .view import View

_NAME = 9


class HostView(View):
    """Cores, memory, pressure, disk and network above; the processes below."""

    NAME = "host"
    DEFAULT_CSS = """
    HostView HostPanel { height: auto; max-height: 60%; }
    HostView ProcessesPanel { height: 1fr; }
    """

    def compose(self) -> ComposeResult:
        yield HostPanel()
        yield ProcessesPanel()

    def show(self, snapshot: Snapshot) -> None:
        self.query_one(HostPanel).show(snapshot)
        self.query_one(ProcessesPanel).show(snapshot)


class HostPanel(Panel[Snapshot]):
    """Meters, each with its figure."""

    TITLE = "host"

    def draw(self, snapshot: Snapshot, width: int, height: int) -> list[Text]:
        machine = snapshot.machine
        if machine.cpu is None and machine.memory_total_bytes is None:
            return draw.notes("the host was not sampled at this moment", width)
        tall = self.screen.has_class("-tall")
        lines = [*core_lines(machine, width, 8 if tall else 3)]
        for name, share, text in _meters(machine):
            lines.append(Text.assemble((name.ljust(_NAME), draw.QUIET), draw.meter(share, 16),
                                       " ", fit(text, max(1, width - _NAME - 17))))  # fmt: skip
        flows = " · ".join(_flows(machine))
        for at, line in enumerate(wrap(flows, max(1, width - _NAME), 2)):
            name = "" if at else "flows"
            lines.append(Text.assemble((name.ljust(_NAME), draw.QUIET), line))
        return lines


def _meters(machine: Machine) -> Iterator[tuple[str, float | None, str]]:
    load = "" if machine.load_1m is None else f" · load {figures.number(machine.load_1m)}"
    iowait = "" if machine.iowait is None else f" · I/O wait {figures.share(machine.iowait)}"
    yield "cpu", machine.cpu, f"{figures.share(machine.cpu)}{iowait}{load}"
    yield _bytes("memory", machine.memory_used_bytes, machine.memory_total_bytes)
    if machine.shm_total_bytes:
        yield _bytes("/dev/shm", machine.shm_used_bytes, machine.shm_total_bytes)
    if machine.group_memory_limit_bytes:
        yield _bytes("cgroup", machine.group_memory_bytes, machine.group_memory_limit_bytes)
    if machine.quota_cores:
        text = f"{figures.share(machine.throttled)} of its periods, {machine.quota_cores:g} cores"
        yield "quota", machine.throttled, text
    waited = {"cpu": machine.psi_cpu, "I/O": machine.psi_io, "memory": machine.psi_memory}
    known = {name: value for name, value in waited.items() if value is not None}
    if known:
        told = ", ".join(f"{name} {figures.share(value)}" for name, value in known.items())
        yield "pressure", max(known.values()), f"waiting for {told}"


def _bytes(name: str, used: int | None, total: int | None) -> tuple[str, float | None, str]:
    share = used / total if used is not None and total else None
    return name, share, f"{figures.size(used)} of {figures.size(total)}"


def _flows(machine: Machine) -> Iterator[str]:
    for name, value in (
        ("disk read", machine.read_bytes_per_s), ("disk write", machine.write_bytes_per_s),
        ("network in", machine.net_rx_bytes_per_s), ("network out", machine.net_tx_bytes_per_s),
    ):  # fmt: skip
        if value is not None:
            yield f"{name} {figures.bandwidth(value)}"
