"""The TPU chips of this host, and which reading belongs to which of them.

The runtime numbers devices: cores on v2, v3 and 7x (two a chip), chips on the others, and some
metrics are per chip where others are per core. Only the order is common to all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..accelerators.catalogue import catalogue
from ..accelerators.pci import pci_accelerators

CORES = {"tpu-v2": 2, "tpu-v3": 2, "tpu-v7x": 2}  # devices a chip shows as; 1 for the others


@dataclass(slots=True)
class Chip:
    """One chip; a 7x shows as two functions of one PCI device."""

    device: int  # our number
    catalogue: str
    functions: list[str] = field(default_factory=list)

    @property
    def cores(self) -> int:
        return CORES.get(self.catalogue, 1)

    @property
    def memory_bytes(self) -> int | None:
        return catalogue()[self.catalogue].memory_bytes

    def row(self) -> dict[str, Any]:
        """A row of table `device`."""
        known = catalogue()[self.catalogue]
        return {
            "device": self.device,
            "uuid": None,
            "name": f"{known.vendor} {known.name}",
            "kind": "tpu",
            "catalogue": self.catalogue,
            "memory_bytes": known.memory_bytes,
            "details": {"pci": self.functions[0], "cores": self.cores},
        }


def find_chips(root: Path = Path("/"), first: int = 0) -> list[Chip]:
    """The chips in the runtime's order: that of their IOMMU groups (/dev/vfio/N), else the bus."""
    chips: dict[str, Chip] = {}
    for found in pci_accelerators(root):
        if found.vendor == "Google" and found.catalogue:
            base = found.address.rpartition(".")[0] or found.address
            chip = chips.setdefault(base, Chip(0, found.catalogue))
            chip.functions.append(found.address)
    ordered = sorted(chips.values(), key=lambda chip: _order(root, chip.functions[0]))
    for offset, chip in enumerate(ordered):
        chip.device = first + offset
    return ordered


def _order(root: Path, address: str) -> tuple[int, str]:
    try:
        group = (root / "sys/bus/pci/devices" / address / "iommu_group").readlink().name
    except OSError:
        return -1, address
    return (int(group) if group.isdigit() else -1), address


@dataclass(frozen=True, slots=True)
class Shared:
    """Readings by position of the chip. `sure`: the runtime's numbers leave no doubt."""

    by_chip: dict[int, list[Any]]
    sure: bool = True


def share_out(numbered: Sequence[tuple[int, int, Any]], chips: int, per_chip: int) -> Shared | None:
    """(port, the runtime's number, reading) to chips; None: more readings than places for them.

    Numbers are the host's, or every process's own from 0 on, or those of a slice of many hosts.
    """
    ids = [number for _, number, _ in numbered]
    own = len(set(ids)) < len(ids)
    ordered = sorted(numbered, key=lambda item: (item[0], item[1]) if own else (item[1], 0))
    places = chips * per_chip
    if len(ordered) > places:
        return None
    whole = len(ordered) == places
    of_host = not own and all(0 <= number < places for number in ids)
    found: dict[int, list[Any]] = {}
    for rank, (_, number, reading) in enumerate(ordered):
        place = rank if whole or not of_host else number
        found.setdefault(place // per_chip, []).append(reading)
    return Shared(found, whole or of_host)
