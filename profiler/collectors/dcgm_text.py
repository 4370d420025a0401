"""The text that a dcgm-exporter serves: samples, which of them we take, blank values.

Names differ by version (dcgm_sm_clock, DCGM_FI_DEV_SM_CLOCK; CLOCK_THROTTLE_REASONS became
CLOCKS_EVENT_REASONS), labels too (uuid, UUID; hostname, Hostname).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from .nvml_driver import Missing
from .nvml_fields import MHZ, Metric

MIB = 2**20
LINE = re.compile(
    r"(?P<name>[A-Za-z_:][\w:]*)"
    r'(?:\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?'
    r"\s+(?P<value>\S+)(?:\s+(?P<time>[\d.]+))?\s*(?:#.*)?"
)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
ESCAPE = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Sample:
    """One line. Label names are in lower case; `time_s` is there when the exporter gives it."""

    name: str
    labels: dict[str, str]
    value: float
    time_s: float | None = None


def samples(text: str) -> Iterator[Sample]:
    """Lines of the Prometheus or OpenMetrics text format; what is neither is left out."""
    for line in text.splitlines():
        match = LINE.fullmatch(line.strip()) if line[:1] not in ("", "#") else None
        if match is None:
            continue
        try:
            value = float(match["value"])
            time = float(match["time"]) if match["time"] else None
        except ValueError:
            continue
        if time is not None and time > 1e11:  # Prometheus: ms, OpenMetrics: s
            time /= 1000
        labels = {
            key.lower(): _unescape(text) for key, text in LABEL.findall(match["labels"] or "")
        }
        yield Sample(match["name"], labels, value, time)


def _unescape(text: str) -> str:
    return ESCAPE.sub(lambda m: "\n" if m[1] == "n" else m[1], text)


def _share(column: str, scale: float = 1.0) -> Metric:
    return Metric(column, scale, high=1.005)


FIELDS: dict[str, Metric] = {
    "DCGM_FI_PROF_SM_ACTIVE": _share("sm_share"),
    "DCGM_FI_PROF_SM_OCCUPANCY": _share("occupancy_share"),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": _share("tensor_share"),
    "DCGM_FI_PROF_DRAM_ACTIVE": _share("dram_share"),
    "DCGM_FI_PROF_PCIE_TX_BYTES": Metric("pcie_tx_bytes_per_s", high=1e12, unit="B/s"),
    "DCGM_FI_PROF_PCIE_RX_BYTES": Metric("pcie_rx_bytes_per_s", high=1e12, unit="B/s"),
    "DCGM_FI_DEV_GPU_UTIL": _share("busy_share", 0.01),
    "DCGM_FI_DEV_MEM_COPY_UTIL": _share("memory_busy_share", 0.01),
    "DCGM_FI_DEV_FB_USED": Metric("memory_used_bytes", MIB, high=2**46, whole=True, unit="B"),
    "DCGM_FI_DEV_FB_TOTAL": Metric("memory_total_bytes", MIB, 1, 2**46, whole=True, unit="B"),
    "DCGM_FI_DEV_SM_CLOCK": Metric("sm_clock_hz", MHZ, high=10e9, whole=True, unit="Hz"),
    "DCGM_FI_DEV_MEM_CLOCK": Metric("memory_clock_hz", MHZ, high=50e9, whole=True, unit="Hz"),
    "DCGM_FI_DEV_POWER_USAGE": Metric("power_w", high=3000, unit="W"),
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": Metric("power_limit_w", low=1, high=3000, unit="W"),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": Metric("energy_j", 1e-3, high=1e12, unit="J"),
    "DCGM_FI_DEV_GPU_TEMP": Metric("temperature_c", low=-40, high=150, unit="degrees C"),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": Metric("throttle_bits", high=2**40, whole=True),
    "DCGM_FI_DEV_PCIE_LINK_GEN": Metric("pcie_generation", low=1, high=8, whole=True),
    "DCGM_FI_DEV_PCIE_LINK_WIDTH": Metric("pcie_width", low=1, high=32, whole=True),
}
PROFILING = tuple(list(FIELDS)[:4])
USED = "DCGM_FI_DEV_FB_USED"
FREE = "DCGM_FI_DEV_FB_FREE"
RESERVED = "DCGM_FI_DEV_FB_RESERVED"
RENAMED = {  # in upper case
    "DCGM_GPU_UTILIZATION": "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_MEM_COPY_UTILIZATION": "DCGM_FI_DEV_MEM_COPY_UTIL",
    "DCGM_FB_USED": "DCGM_FI_DEV_FB_USED",
    "DCGM_FB_FREE": FREE,
    "DCGM_SM_CLOCK": "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_MEMORY_CLOCK": "DCGM_FI_DEV_MEM_CLOCK",
    "DCGM_POWER_USAGE": "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_GPU_TEMP": "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_TOTAL_ENERGY_CONSUMPTION": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
    "DCGM_FI_DEV_POWER_MGMT_LIMIT": "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
}


def field_name(name: str) -> str:
    """Today's name of a field, whatever the exporter's version calls it."""
    upper = name.upper()
    return RENAMED.get(upper, upper)


# DCGM's blank values: int32, int64 and double, each with four kinds (dcgm_structs.h).
_BASES = (0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0, 140737488355328)
_KINDS = (
    "DCGM has no reading of it (another profiler may hold the counters)",
    "DCGM did not find it",
    "not supported by this GPU or its driver, says DCGM",
    "DCGM may not read it (profiling counters need the exporter to have CAP_SYS_ADMIN)",
)


def blank(value: float) -> Missing | None:
    """Why this value is none; None when it is one. Large ones lose digits in the text."""
    if math.isnan(value):
        return Missing(_KINDS[0])
    for base in (_BASES[0], _BASES[2]):
        kind = value - base
        if 0 <= kind < 16:
            return Missing(_KINDS[int(kind)] if kind < 4 else _KINDS[0])
    return Missing(_KINDS[0]) if value >= 2**62 else None
