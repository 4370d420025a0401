"""Where a device is plugged in: its NUMA node, against the cores that the job may use."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

MOST_CORES = 1 << 16


def place(pci: str, usable: Collection[int], root: Path = Path("/")) -> dict[str, Any]:
    """Entries of a device's details: its node, and a note when none of `usable` is beside it.

    Nothing where the host does not tell: one node alone, a virtual machine, WSL.
    """
    domain, _, rest = pci.lower().partition(":")
    folder = root / "sys/bus/pci/devices" / f"{domain[-4:]}:{rest}"
    try:
        node = int((folder / "numa_node").read_text())
        text = (folder / "local_cpulist").read_text().strip()
    except (OSError, ValueError):
        return {}
    if node < 0:
        return {}
    found: dict[str, Any] = {"numa_node": node}
    near = cores(text)
    if near and usable and near.isdisjoint(usable):
        found["numa_note"] = (
            f"on NUMA node {node} (cores {text}), none of which this process may use: copies to "
            "the device cross the link between sockets"
        )
    return found


def cores(text: str) -> frozenset[int]:
    """The cores of a list such as "0-3,8"; none when it is not one."""
    found: set[int] = set()
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            found.update(range(int(first), min(int(last or first) + 1, MOST_CORES)))
    except ValueError:
        return frozenset()
    return frozenset(found)
