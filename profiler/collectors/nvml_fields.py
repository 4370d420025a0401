"""The table of what NVML is asked: column, functions, scale, plausible range, how often.

One Field is one call. Its functions are tried in order, newest first; the one that answers is
kept. A value outside its range is missing with a reason: drivers do report 16 MW and 2^64-1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .nvml_driver import Missing

Handle = Any
Reader = Callable[[Any, Handle], tuple[Any, ...]]  # (bindings, handle) -> a raw value per metric
SENTINELS = frozenset({2**64 - 1, 2**32 - 1, 2**63 - 1})
MHZ = 1_000_000


@dataclass(frozen=True, slots=True)
class Metric:
    """A column of device_sample: value = raw * scale, plausible within [low, high]."""

    column: str
    scale: float = 1
    low: float = 0
    high: float = math.inf
    whole: bool = False
    unit: str = ""

    def check(self, raw: Any) -> float | int | Missing:
        """The value in the column's unit, or why it cannot be one."""
        if raw is not None:
            value = raw * self.scale
            if self.low <= value <= self.high:  # false for NaN, too
                return int(value) if self.whole else float(value)
            if raw not in SENTINELS:
                return Missing(f"implausible reading {value:g} {self.unit}".rstrip())
        return Missing("the driver says: value not available")


@dataclass(frozen=True, slots=True)
class Field:
    """One call, with fallbacks. `period_s` 0: at each sample; `slow`: with the slow calls."""

    name: str
    metrics: tuple[Metric, ...]
    readers: tuple[tuple[str, Reader], ...]  # (function, how to call it), newest first
    period_s: float = 0.0
    slow: bool = False
    on_mig: bool = False  # asked of MIG instances, too


def _memory_v2(nvml: Any, handle: Handle) -> tuple[Any, ...]:
    info = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    return info.used, info.total


def _memory_v1(nvml: Any, handle: Handle) -> tuple[Any, ...]:
    info = nvml.nvmlDeviceGetMemoryInfo(handle)
    return info.used, info.total


def _utilisation(nvml: Any, handle: Handle) -> tuple[Any, ...]:
    rates = nvml.nvmlDeviceGetUtilizationRates(handle)
    return rates.gpu, rates.memory


def _one(function: str, *arguments: Any) -> tuple[tuple[str, Reader], ...]:
    def read(nvml: Any, handle: Handle) -> tuple[Any, ...]:
        return (getattr(nvml, function)(handle, *arguments),)

    return ((function, read),)


MEMORY = Field(
    "memory",
    (
        Metric("memory_used_bytes", high=2**46, whole=True, unit="B"),
        Metric("memory_total_bytes", low=1, high=2**46, whole=True, unit="B"),
    ),
    (("nvmlDeviceGetMemoryInfo_v2", _memory_v2), ("nvmlDeviceGetMemoryInfo", _memory_v1)),
    on_mig=True,
)
ENERGY = Field(
    "energy",
    (Metric("energy_j", 1e-3, high=1e12, unit="J"),),
    _one("nvmlDeviceGetTotalEnergyConsumption"),
)
UTILISATION = Field(
    "utilisation",
    (Metric("busy_share", 0.01, high=1.0), Metric("memory_busy_share", 0.01, high=1.0)),
    (("nvmlDeviceGetUtilizationRates", _utilisation),),
)
FIELDS: tuple[Field, ...] = (
    UTILISATION,
    MEMORY,
    Field(
        "power",
        (Metric("power_w", 1e-3, high=3000, unit="W"),),
        _one("nvmlDeviceGetPowerUsage"),
    ),
    ENERGY,
    Field(
        "sm clock",
        (Metric("sm_clock_hz", MHZ, high=10e9, whole=True, unit="Hz"),),
        _one("nvmlDeviceGetClockInfo", 1),
    ),
    Field(
        "throttle reasons",
        (Metric("throttle_bits", high=2**40, whole=True),),
        _one("nvmlDeviceGetCurrentClocksEventReasons")
        + _one("nvmlDeviceGetCurrentClocksThrottleReasons"),
    ),
    Field(
        "memory clock",
        (Metric("memory_clock_hz", MHZ, high=50e9, whole=True, unit="Hz"),),
        _one("nvmlDeviceGetClockInfo", 2),
        period_s=1.0,
    ),
    Field(
        "temperature",
        (Metric("temperature_c", low=-40, high=150, unit="degrees C"),),
        _one("nvmlDeviceGetTemperatureV", 0) + _one("nvmlDeviceGetTemperature", 0),
        period_s=1.0,
    ),
    Field(
        "power limit",
        (Metric("power_limit_w", 1e-3, low=1, high=3000, unit="W"),),
        _one("nvmlDeviceGetEnforcedPowerLimit") + _one("nvmlDeviceGetPowerManagementLimit"),
        period_s=5.0,
    ),
    # The link drops to generation 1 when idle: judge it only under load.
    Field(
        "link generation",
        (Metric("pcie_generation", low=1, high=8, whole=True),),
        _one("nvmlDeviceGetCurrPcieLinkGeneration"),
        period_s=1.0,
    ),
    Field(
        "link width",
        (Metric("pcie_width", low=1, high=32, whole=True),),
        _one("nvmlDeviceGetCurrPcieLinkWidth"),
        period_s=1.0,
    ),
    # Each of these two calls counts for about 20 ms before it returns.
    Field(
        "PCIe sent",
        (Metric("pcie_tx_bytes_per_s", 1000, high=1e12, unit="B/s"),),
        _one("nvmlDeviceGetPcieThroughput", 0),
        period_s=1.0,
        slow=True,
    ),
    Field(
        "PCIe received",
        (Metric("pcie_rx_bytes_per_s", 1000, high=1e12, unit="B/s"),),
        _one("nvmlDeviceGetPcieThroughput", 1),
        period_s=1.0,
        slow=True,
    ),
)

GPM_SHARES: dict[int, Metric] = {  # GPM metric id: column
    2: Metric("sm_share", 0.01, high=1.005),
    3: Metric("occupancy_share", 0.01, high=1.005),
    5: Metric("tensor_share", 0.01, high=1.005),
    10: Metric("dram_share", 0.01, high=1.005),
    20: Metric("pcie_tx_bytes_per_s", 2**20, high=1e12, unit="B/s"),
    21: Metric("pcie_rx_bytes_per_s", 2**20, high=1e12, unit="B/s"),
}
GPM_EXTRAS: dict[int, Metric] = {  # for the event `device-counters`: no columns of their own
    7: Metric("half_tensor_share", 0.01, high=1.005),
    11: Metric("fp64_share", 0.01, high=1.005),
    12: Metric("fp32_share", 0.01, high=1.005),
    13: Metric("fp16_share", 0.01, high=1.005),
    60: Metric("nvlink_rx_bytes_per_s", 2**20, high=1e13, unit="B/s"),
    61: Metric("nvlink_tx_bytes_per_s", 2**20, high=1e13, unit="B/s"),
}
GPM_COLUMNS = tuple(metric.column for metric in GPM_SHARES.values())
GPM_ONLY_COLUMNS = ("sm_share", "occupancy_share", "tensor_share", "dram_share")

COLUMNS: tuple[str, ...] = (  # of device_sample, after t_ns and device
    "busy_share", "memory_busy_share", "sm_share", "tensor_share", "dram_share", "occupancy_share",
    "memory_used_bytes", "memory_total_bytes", "sm_clock_hz", "memory_clock_hz", "power_w",
    "power_limit_w", "energy_j", "temperature_c", "throttle_bits", "pcie_tx_bytes_per_s",
    "pcie_rx_bytes_per_s", "pcie_generation", "pcie_width",
)  # fmt: skip

THROTTLE_BITS: dict[int, str] = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clocks",
}
XIDS: dict[int, str] = {  # the ones that say what to do next
    13: "graphics engine exception (usually the program)",
    31: "memory page fault (usually the program)",
    43: "stopped processing (usually the program)",
    45: "preemptive cleanup after an earlier fault",
    48: "double-bit ECC error",
    63: "row remapping recorded",
    64: "row remapping failed: replace the card",
    74: "NVLink error",
    79: "the GPU fell off the bus",
    92: "high rate of single-bit ECC errors",
    94: "contained memory error",
    95: "uncontained memory error: reset the GPU",
    119: "the GPU's system processor timed out",
    120: "the GPU's system processor failed",
    154: "the GPU needs a recovery action",
}
