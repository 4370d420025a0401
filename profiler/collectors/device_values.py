"""One device's readings of a moment, and why others are missing: each reason is told once.

For sources that give a whole row at a time (TPU, AMD, Intel, DCGM); NVML's cards keep their own.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from ..accelerators.pci import pci_accelerators
from . import Row
from .nvml_driver import Missing
from .nvml_fields import COLUMNS, Metric

TELL_AGAIN_NS = 600 * 10**9
NUMBER = re.compile(r"-?[\d.]+(e[+-]?\d+)?")
ORDER = ("NVIDIA", "AMD", "Google")  # devices are numbered in this order, each in that of the bus


def first_number(vendor: str, root: Path = Path("/")) -> int:
    """The number of a vendor's first device; for vendors not in ORDER: after all and the CPU."""
    on_bus = pci_accelerators(root)
    if vendor not in ORDER:
        return len(on_bus) + 1
    before = ORDER[: ORDER.index(vendor)]
    return sum(device.vendor in before for device in on_bus)


def number(raw: Any) -> float | int | None:
    """A reading as a number; None for "N/A" and whatever else is none."""
    if isinstance(raw, bool):
        return None
    if isinstance(raw, int | float):
        return raw
    try:
        return float(str(raw).strip().removesuffix("%"))
    except ValueError:
        return None


def check(metric: Metric, raw: Any) -> float | int | Missing:
    """The value in the column's unit; shares are cut at 1."""
    if isinstance(raw, Missing):
        return raw
    value = number(raw)
    if value is None or math.isnan(value):
        return Missing("the driver says: value not available")
    found = metric.check(value)
    if not isinstance(found, Missing) and metric.column.endswith("_share"):
        return min(found, 1.0)
    return found


class DeviceValues:
    """A row of device_sample in the making. Call `clear` before each sample."""

    def __init__(self, source: str, device: int) -> None:
        self.source, self.device = source, device
        self.values: dict[str, float | int | None] = dict.fromkeys(COLUMNS)
        self.missing: dict[str, Missing] = {}
        self._told: dict[tuple[str, str], int] = {}  # column and kind of reason: t_ns

    def clear(self) -> None:
        self.values = dict.fromkeys(COLUMNS)
        self.missing.clear()

    def put(self, metric: Metric, raw: Any) -> float | int | None:
        """Stores a raw reading, or why there is none, under the metric's column."""
        value = check(metric, raw)
        if isinstance(value, Missing):
            self.drop(metric.column, value)
            return None
        self.values[metric.column] = value
        self.missing.pop(metric.column, None)
        return value

    def drop(self, column: str, why: Missing) -> None:
        self.values[column] = None
        self.missing[column] = why

    def check_together(self) -> None:
        """What only several readings together can tell."""
        used, total = self.values["memory_used_bytes"], self.values["memory_total_bytes"]
        if used is not None and total is not None and used > total:
            self.drop("memory_used_bytes", Missing("implausible reading: more used than there is"))
        busy = self.values["busy_share"]
        if self.values["power_w"] == 0 and busy is not None and busy > 0.5:
            self.drop("power_w", Missing("implausible reading: 0 W while busy"))

    def rows(self, t_ns: int) -> list[Row]:
        """The sample, if anything was read, and the gaps that were not told yet."""
        found: list[Row] = []
        if any(value is not None for value in self.values.values()):
            found.append(("device_sample", (t_ns, self.device, *self.values.values())))
        for column, why in self.missing.items():
            kind = (column, NUMBER.sub("#", why.reason))
            told = self._told.get(kind)
            if told is None or t_ns - told >= TELL_AGAIN_NS:
                self._told[kind] = t_ns
                found.append(("gap", (t_ns, self.source, column, self.device, why.reason)))
        return found
