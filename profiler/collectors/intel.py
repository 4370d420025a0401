"""Intel's graphics cards by the sensors of their driver (i915, xe); Apple's GPUs as a stated gap.

sysfs has power, energy, clock and temperature. How busy the engines are and how much memory is used
is in the kernel's perf events and in Level Zero's Sysman, which want privileges or a library.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import Collector, Finished, Gap, Row
from .amd_sysfs import text
from .device_values import DeviceValues, first_number, number
from .nvml_driver import Missing
from .nvml_fields import MHZ, Metric

S = 10**9
VENDOR = "0x8086"
NAMES = {  # PCI device: name of the cards that train
    "0x0bd5": "Intel Data Center GPU Max 1550",
    "0x0bd9": "Intel Data Center GPU Max 1100",
    "0x0bda": "Intel Data Center GPU Max 1100",
    "0x56c0": "Intel Data Center GPU Flex 170",
    "0x56c1": "Intel Data Center GPU Flex 140",
    "0x56a0": "Intel Arc A770",
    "0x56a1": "Intel Arc A750",
    "0xe20b": "Intel Arc B580",
    "0xe20c": "Intel Arc B570",
}
CLOCKS = (  # of xe, of i915
    "device/tile0/gt0/freq0/act_freq",
    "gt/gt0/rps_act_freq_mhz",
    "gt_act_freq_mhz",
)
ENERGY = Metric("energy_j", 1e-6, high=1e12, unit="J")
POWER = Metric("power_w", high=3000, unit="W")
POWER_LIMIT = Metric("power_limit_w", 1e-6, low=1, high=3000, unit="W")
TEMPERATURE = Metric("temperature_c", 1e-3, low=-40, high=150, unit="degrees C")
CLOCK = Metric("sm_clock_hz", MHZ, high=10e9, whole=True, unit="Hz")
UNREAD = "busy_share, memory_used_bytes"
WHY_UNREAD = (
    "Intel's driver gives these through Level Zero Sysman alone (xpu-smi shows them), which "
    "accelprof does not read"
)
APPLE = "Apple GPUs are not read: macOS tells their load to root alone (powermetrics)"


class IntelCollector(Collector):
    """Rows of device, device_sample and gap."""

    name = "intel"
    default_rate_hz = 1.0

    def __init__(self, *, root: Path = Path("/"), system: str | None = None) -> None:
        self._root = root
        self._system = platform.system() if system is None else system
        self._cards: list[_Card] = []
        self._begun = False

    def probe(self) -> list[Gap]:
        if self._system == "Darwin":
            return [Gap("*", APPLE)]
        folders = list(_graphics(self._root))
        cards = sorted((f for f in folders if _sensors(f)), key=_address)
        if not cards:
            integrated = "integrated graphics only: not read" if folders else "no Intel GPU here"
            return [Gap("*", integrated)]
        first = first_number("Intel", self._root)
        self._cards = [_Card(folder, first + number) for number, folder in enumerate(cards)]
        return [Gap(UNREAD, WHY_UNREAD)]

    def sample(self, t_ns: int) -> list[Row]:
        if not self._cards:
            raise Finished
        rows: list[Row] = [] if self._begun else [("device", card.row()) for card in self._cards]
        self._begun = True
        for card in self._cards:
            card.fill(t_ns)
            rows += card.values.rows(t_ns)
        return rows


def _graphics(root: Path) -> Iterator[Path]:
    """Folders /sys/class/drm/cardN of Intel's devices."""
    for card in sorted((root / "sys/class/drm").glob("card*")):
        if card.name[4:].isdigit() and text(card / "device/vendor") == VENDOR:
            yield card


def _sensors(card: Path) -> Path | None:
    """Cards have sensors of their own; graphics within a processor has none."""
    return next(iter(sorted(card.glob("device/hwmon/hwmon*"))), None)


def _address(card: Path) -> str:
    return (card / "device").resolve().name


class _Card:
    """One card: power is the difference of two readings of its energy counter."""

    def __init__(self, folder: Path, device: int) -> None:
        self.folder = folder
        self.values = DeviceValues("intel", device)
        self._sensors = _sensors(folder) or folder
        self._before: tuple[int, float] | None = None  # t_ns, J

    def row(self) -> dict[str, Any]:
        """A row of table `device`."""
        device = text(self.folder / "device/device") or ""
        name = NAMES.get(device, f"Intel GPU {device}")
        fact = f'"{name}" is not in the catalogue: no peak rates are known'
        return {
            "device": self.values.device,
            "uuid": None,
            "name": name,
            "kind": "gpu",
            "catalogue": None,
            "memory_bytes": None,
            "details": json.dumps({"pci": _address(self.folder), "facts": [fact]}),
        }

    def fill(self, t_ns: int) -> None:
        """The sensors that there are, card's before package's."""
        values = self.values
        values.clear()
        values.put(ENERGY, self._sensor("energy", "card", "pkg"))
        values.put(TEMPERATURE, self._sensor("temp", "pkg", "package"))
        limit = number(text(self._sensors / "power1_max"))
        if limit:
            values.put(POWER_LIMIT, limit)
        clocks = (text(self.folder / name) for name in CLOCKS)
        clock = next((value for value in clocks if value is not None), None)
        values.put(CLOCK, Missing("the driver tells no clock") if clock is None else clock)
        self._fill_power(t_ns)

    def _fill_power(self, t_ns: int) -> None:
        energy, before = self.values.values["energy_j"], self._before
        self._before = None if energy is None else (t_ns, float(energy))
        if energy is None:
            self.values.drop("power_w", Missing("no energy counter to make it from"))
        elif before is not None and t_ns > before[0]:
            self.values.put(POWER, (energy - before[1]) * S / (t_ns - before[0]))

    def _sensor(self, kind: str, *labels: str) -> Any:
        """The input with one of the labels, else the first there is."""
        inputs = sorted(self._sensors.glob(f"{kind}*_input"))
        for wanted in labels:
            for path in inputs:
                if text(path.with_name(path.name.replace("_input", "_label"))) == wanted:
                    return _or_missing(text(path), path.name)
        found = (text(path) for path in inputs)
        return _or_missing(next((value for value in found if value), None), kind)


def _or_missing(value: str | None, name: str) -> str | Missing:
    return Missing(f"the driver tells no {name}") if value is None else value
