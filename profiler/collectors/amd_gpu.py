"""An AMD GPU as a source (amdsmi or sysfs) describes it, and what is common to both sources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..accelerators.catalogue import by_nvml_name
from .nvml_fields import MHZ, Metric

BUSY = Metric("busy_share", 0.01, high=1.01)
MEMORY_BUSY = Metric("memory_busy_share", 0.01, high=1.01)
USED = Metric("memory_used_bytes", high=2**46, whole=True, unit="B")
TOTAL = Metric("memory_total_bytes", low=1, high=2**46, whole=True, unit="B")
POWER = Metric("power_w", high=3000, unit="W")
POWER_LIMIT = Metric("power_limit_w", low=1, high=3000, unit="W")
ENERGY = Metric("energy_j", high=1e12, unit="J")
TEMPERATURE = Metric("temperature_c", low=-40, high=150, unit="degrees C")
CLOCK = Metric("sm_clock_hz", MHZ, high=10e9, whole=True, unit="Hz")
MEMORY_CLOCK = Metric("memory_clock_hz", MHZ, high=50e9, whole=True, unit="Hz")
GENERATION = Metric("pcie_generation", low=1, high=8, whole=True)
WIDTH = Metric("pcie_width", low=1, high=32, whole=True)

PCI_NAMES = {  # PCI device: name; the rest are named by the driver, or by this number
    "0x738c": "AMD Instinct MI100",
    "0x7408": "AMD Instinct MI250X",
    "0x740c": "AMD Instinct MI250X",
    "0x740f": "AMD Instinct MI210",
    "0x74a0": "AMD Instinct MI300A",
    "0x74a1": "AMD Instinct MI300X",
    "0x74a5": "AMD Instinct MI325X",
    "0x74b5": "AMD Instinct MI300X",
    "0x74b9": "AMD Instinct MI325X",
    "0x75a0": "AMD Instinct MI350X",
    "0x75a3": "AMD Instinct MI355X",
}
GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}  # GT/s a lane
TWO_DIES = "MI250"
DIE_FACT = (
    "one of the two dies of a card: half of the card's peak rates, bandwidth and memory; the power "
    "of both is reported by the first"
)


@dataclass(frozen=True, slots=True)
class Ask:
    """One question: `read()` gives a raw value (a Missing, text, a number) per metric."""

    name: str
    metrics: tuple[Metric, ...]
    read: Callable[[], tuple[Any, ...]]


@dataclass(slots=True)
class Gpu:
    """One device as the driver lists it: a card, or one die of an MI250X."""

    pci: str
    name: str
    uuid: str | None
    memory_bytes: int | None
    asks: tuple[Ask, ...]
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def is_die(self) -> bool:
        return TWO_DIES in self.name

    def row(self, device: int) -> dict[str, Any]:
        """A row of table `device`. A die has not the peaks that the catalogue gives the card."""
        known = None if self.is_die else by_nvml_name(self.name)
        facts = [DIE_FACT] if self.is_die else []
        if known is None and not self.is_die:
            facts.append(f'"{self.name}" is not in the catalogue: no peak rates are known')
        return {
            "device": device,
            "uuid": self.uuid,
            "name": self.name,
            "kind": "gpu",
            "catalogue": known.id if known else None,
            "memory_bytes": self.memory_bytes,
            "details": {"pci": self.pci, **self.details, "facts": facts},
        }
