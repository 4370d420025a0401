"""Reads what `nvidia-smi --query-gpu=... --format=csv` and `nvidia-smi dmon` write.

Both give device samples only: no steps, no phases. Every column is optional and every value may
be missing ("[N/A]", "[Not Supported]", "-"); a missing value is None, never 0.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo

Row = dict[str, float | int | None]
DAY_NS = 86_400_000_000_000


@dataclass
class SmiLog:
    """Device samples of one log: `samples` are rows of the table device_sample."""

    names: dict[int, str | None] = field(default_factory=dict)  # device -> name
    uuids: dict[int, str] = field(default_factory=dict)
    samples: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    skipped: int = 0  # lines that could not be read
    unread: str = ""  # the first of them


class NotAnSmiLog(ValueError):
    """The text is neither of the two formats; the message says what is missing."""


# query name or dmon heading -> (column, factor to the column's unit)
_QUERY: dict[str, tuple[str, float]] = {
    "utilization.gpu": ("busy_share", 0.01),
    "utilization.memory": ("memory_busy_share", 0.01),
    "memory.used": ("memory_used_bytes", 2**20),
    "memory.total": ("memory_total_bytes", 2**20),
    "clocks.sm": ("sm_clock_hz", 1e6),
    "clocks.current.sm": ("sm_clock_hz", 1e6),
    "clocks.mem": ("memory_clock_hz", 1e6),
    "clocks.current.memory": ("memory_clock_hz", 1e6),
    "power.draw": ("power_w", 1.0),
    "power.draw.instant": ("power_w", 1.0),
    "power.limit": ("power_limit_w", 1.0),
    "enforced.power.limit": ("power_limit_w", 1.0),
    "temperature.gpu": ("temperature_c", 1.0),
    "clocks_throttle_reasons.active": ("throttle_bits", 1.0),
    "clocks_event_reasons.active": ("throttle_bits", 1.0),
    "pcie.link.gen.current": ("pcie_generation", 1.0),
    "pcie.link.gen.gpucurrent": ("pcie_generation", 1.0),
    "pcie.link.width.current": ("pcie_width", 1.0),
}
_DMON: dict[str, tuple[str, float]] = {
    "pwr": ("power_w", 1.0),
    "gtemp": ("temperature_c", 1.0),
    "temp": ("temperature_c", 1.0),
    "sm": ("busy_share", 0.01),
    "mem": ("memory_busy_share", 0.01),
    "mclk": ("memory_clock_hz", 1e6),
    "pclk": ("sm_clock_hz", 1e6),
    "fb": ("memory_used_bytes", 2**20),
    "rxpci": ("pcie_rx_bytes_per_s", 1e6),
    "txpci": ("pcie_tx_bytes_per_s", 1e6),
    "gract": ("busy_share", 0.01),
    "smact": ("sm_share", 0.01),
    "smutil": ("sm_share", 0.01),
    "smocc": ("occupancy_share", 0.01),
    "tensor": ("tensor_share", 0.01),
    "dram": ("dram_share", 0.01),
}
# What tells devices apart, the best first
_IDENTS = ("index", "pci.bus_id", "gpu_bus_id", "uuid", "gpu_uuid", "serial")
_INTEGERS = {
    "memory_used_bytes", "memory_total_bytes", "sm_clock_hz", "memory_clock_hz",
    "throttle_bits", "pcie_generation", "pcie_width",
}  # fmt: skip
# A reading outside is the driver's sentinel or an error, and missing.
_PLAUSIBLE: dict[str, tuple[float, float]] = {
    "busy_share": (0, 1), "memory_busy_share": (0, 1), "sm_share": (0, 1), "dram_share": (0, 1),
    "tensor_share": (0, 1), "occupancy_share": (0, 1), "power_w": (0, 3000),
    "power_limit_w": (0, 3000), "temperature_c": (-20, 150), "sm_clock_hz": (0, 5e9),
    "memory_clock_hz": (0, 3e10), "memory_used_bytes": (0, 2**40), "memory_total_bytes": (0, 2**40),
}  # fmt: skip


def looks_like(first_lines: str) -> bool:
    """Whether the beginning of a file is one of the two formats."""
    return _dmon_heading(first_lines.splitlines()) or "utilization." in first_lines or (
        re.search(r"^\s*(timestamp|index|name|uuid|pci\.bus_id)\s*,|NVIDIA-SMI \d"
                  r"|^\s*\d{4}/\d\d/\d\d \d\d:\d\d:\d\d", first_lines) is not None
    )  # fmt: skip


def read(lines: Iterable[str], *, start_ns: int, tz: datetime | None = None) -> SmiLog:
    """Parses either format.

    Args:
        lines: the log.
        start_ns: UTC ns of the first sample, where the log carries no time.
        tz: a datetime whose tzinfo the log's local times are in; UTC when None.

    Raises:
        NotAnSmiLog: neither format, or no header to tell the columns by.
    """
    kept = iter(lines)
    head: list[str] = []
    for line in kept:
        head.append(line)
        if line.strip() and (len(head) > 3 or not line.startswith("#")):
            break
    zone = (tz.tzinfo if tz is not None else None) or UTC

    def to_ns(text: str) -> int | None:
        try:  # "2026/03/01 10:00:00.500", dmon's "20260301 10:00:00", and ISO 8601
            moment = datetime.fromisoformat(text.strip().replace("/", "-"))
        except ValueError:
            return None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=zone)
        return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000

    def everything() -> Iterator[str]:
        yield from head
        yield from kept

    if _dmon_heading(head):
        return _read_dmon(everything(), start_ns, to_ns, zone)
    return _read_query(everything(), start_ns, to_ns)


def _dmon_heading(lines: list[str]) -> bool:
    return any(line.startswith("#") and "gpu" in _dmon_fields(line) for line in lines[:3])


def _dmon_fields(line: str) -> list[str]:
    """Of dmon's table, or of its --format csv."""
    return line.lstrip("# ").lower().replace(",", " ").split()


def _value(column: str, factor: float, text: str) -> float | int | None:
    match = re.match(r"\s*(0x[0-9a-fA-F]+|[-+]?\d+(?:\.\d+)?)", text)
    if match is None:
        return None
    digits = match.group(1)
    number = float(int(digits, 16)) if digits.startswith("0x") else float(digits)
    value = number * factor
    low, high = _PLAUSIBLE.get(column, (0, float(2**63)))
    if not low <= value <= high:
        return None
    return int(value) if column in _INTEGERS else value


def _cells(line: str) -> list[str]:
    """The cells of one line; none of a line that is no CSV."""
    try:
        return next(csv.reader([line.strip()], skipinitialspace=True), [])
    except csv.Error:
        return []


def _read_query(
    lines: Iterator[str], start_ns: int, to_ns: Callable[[str], int | None]
) -> SmiLog:  # fmt: skip
    log = SmiLog()
    rows = map(_cells, (line for line in lines if line.strip()))
    header = [re.sub(r"\s*\[.*\]$", "", name.strip()) for name in next(rows, [])]
    if not any(name in _QUERY for name in header):
        raise NotAnSmiLog("no header with nvidia-smi's column names (was it made with noheader?); "
                          "a log is made by nvidia-smi --query-gpu=timestamp,index,name,"
                          "utilization.gpu,power.draw --format=csv -l 1")  # fmt: skip
    timed = "timestamp" in header
    ident = next((name for name in _IDENTS if name in header), None)
    if ident is None:
        log.notes.append("the log has no column index, uuid or pci.bus_id: it is taken for one "
                         "device's")  # fmt: skip
    numbers: dict[str, int] = {}
    if not timed:
        log.notes.append("the log has no timestamp column: one sample a second was assumed")
    seen: dict[int, int] = {}
    for fields in rows:
        cells = dict(zip(header, fields, strict=False))
        when = to_ns(cells["timestamp"]) if timed and "timestamp" in cells else None
        if len(fields) < len(header) or (timed and when is None):
            log.skipped += 1
            log.unread = log.unread or ",".join(fields)
            continue
        told = cells[ident].strip() if ident else "0"
        device = int(told) if told.isdecimal() and len(told) < 6 else (
            numbers.setdefault(told, len(numbers)))  # fmt: skip
        if when is None:
            when = start_ns + seen.get(device, 0) * 1_000_000_000
        seen[device] = seen.get(device, 0) + 1
        log.names.setdefault(device, cells.get("name", cells.get("gpu_name")))
        if cells.get("uuid", cells.get("gpu_uuid")):
            log.uuids[device] = cells.get("uuid") or cells["gpu_uuid"]
        row: Row = {"t_ns": when, "device": device}
        for name, (column, factor) in _QUERY.items():
            if name in cells and row.get(column) is None:
                row[column] = _value(column, factor, cells[name])
        log.samples.append(row)
    return log


def _read_dmon(
    lines: Iterator[str], start_ns: int, to_ns: Callable[[str], int | None], zone: tzinfo
) -> SmiLog:  # fmt: skip
    log = SmiLog()
    header: list[str] = []
    times = _DmonTimes(start_ns, to_ns, zone)
    for line in lines:
        fields = _dmon_fields(line)
        if line.startswith("#"):
            header = fields if "gpu" in fields else header
            if "pid" in header:
                raise NotAnSmiLog("a log of nvidia-smi pmon, of processes: dmon tells of devices")
            continue
        if not fields:
            continue
        cells = dict(zip(header, fields, strict=False))
        if len(fields) != len(header) or not cells.get("gpu", "").isdigit():
            log.skipped += 1
            log.unread = log.unread or line.strip()
            continue
        device = int(cells["gpu"])
        log.names.setdefault(device, None)
        row: Row = {"t_ns": times.of(cells, device), "device": device}
        for name, (column, factor) in _DMON.items():
            if name in cells and row.get(column) is None:
                row[column] = _value(column, factor, cells[name])
        log.samples.append(row)
    if not header:
        raise NotAnSmiLog("no dmon heading (# gpu pwr ...)")
    if times.note:
        log.notes.append(times.note)
    return log


class _DmonTimes:
    """When a line was written, by the columns of `dmon -o DT`, `-o T` or neither."""

    def __init__(
        self, start_ns: int, to_ns: Callable[[str], int | None], zone: tzinfo
    ) -> None:  # fmt: skip
        self._to_ns = to_ns
        self._first = datetime.fromtimestamp(start_ns / 1e9, zone).date()
        self._start_ns = start_ns
        self._last_ns = 0
        self._seen: dict[int, int] = {}
        self.note = ""

    def of(self, cells: dict[str, str], device: int) -> int:
        day = cells.get("date") or cells.get("yyyymmdd")
        clock = cells.get("time") or cells.get("hh:mm:ss")
        when = self._to_ns(f"{day or self._first} {clock}") if clock else None
        at = self._seen[device] = self._seen.get(device, -1) + 1
        if when is None:
            self.note = "the log has no times (dmon -o DT adds them): one sample a second assumed"
            return self._start_ns + at * 1_000_000_000
        if not day:
            self.note = ("the log has no dates (dmon -o DT adds them): it is taken to begin on "
                         f"{self._first}")  # fmt: skip
            while when < self._last_ns - DAY_NS // 2:  # past midnight
                when += DAY_NS
            self._last_ns = when
        return when
