"""One look at the accelerators of other vendors than NVIDIA, by the collectors that runs use."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from . import Collector, Finished, Row
from .amd import AmdCollector
from .intel import IntelCollector
from .nvml_fields import COLUMNS
from .tpu import TpuCollector

BETWEEN_S = 0.3  # two samples: some readings are differences
_SAMPLE = ("t_ns", "device", *COLUMNS)
_MAKERS: tuple[tuple[str, Callable[[Path], Collector]], ...] = (
    ("AMD", lambda root: AmdCollector(root=root)),
    ("Intel", lambda root: IntelCollector(root=root)),
    ("Google", lambda root: TpuCollector(root=root)),
)


class Seen(NamedTuple):
    """One device: its row of table `device`, what was read of it, and why the rest was not."""

    vendor: str
    device: dict[str, Any]
    values: dict[str, Any]
    missing: dict[str, str]  # metric, "*" for all: reason

    @property
    def details(self) -> dict[str, Any]:
        found = self.device.get("details")
        return json.loads(found) if isinstance(found, str) else dict(found or {})


def look(root: Path = Path("/"), *, pause: Callable[[float], None] = time.sleep) -> list[Seen]:
    """The devices that can be asked now, in the order of their numbers."""
    found: list[Seen] = []
    for vendor, make in _MAKERS:
        collector = make(root)
        try:
            found += _look(vendor, collector, pause)
        finally:
            collector.close()
    return sorted(found, key=lambda seen: int(seen.device["device"]))


def _look(vendor: str, collector: Collector, pause: Callable[[float], None]) -> list[Seen]:
    general = {gap.metric: gap.reason for gap in collector.probe()}
    rows: list[Row] = []
    try:
        rows += collector.sample(time.time_ns())
        pause(BETWEEN_S)
        rows += collector.sample(time.time_ns())
    except Finished:
        pass
    values: dict[int, dict[str, Any]] = {}
    missing: dict[int, dict[str, str]] = {}
    for table, row in rows:
        if table == "device_sample":
            read = dict(zip(_SAMPLE, row, strict=True)) if isinstance(row, tuple) else dict(row)
            values[read["device"]] = {c: read[c] for c in COLUMNS if read.get(c) is not None}
        elif table == "gap" and isinstance(row, tuple):
            missing.setdefault(row[3], {})[row[2]] = row[4]
    return [
        Seen(
            vendor, dict(row), values.get(row["device"], {}),
            general | missing.get(row["device"], {}),
        )
        for table, row in rows if table == "device" and not isinstance(row, tuple)
    ]  # fmt: skip
