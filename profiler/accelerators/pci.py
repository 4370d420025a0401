"""Accelerators on the PCI bus: they show there even when no driver lets one read them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# Google: (device, subsystem or None): catalogue id
TPUS: dict[tuple[str, str | None], str] = {
    ("0x0027", "0x004e"): "tpu-v2",
    ("0x0027", "0x004f"): "tpu-v3",
    ("0x005e", None): "tpu-v4",
    ("0x0063", None): "tpu-v5e",
    ("0x0062", None): "tpu-v5p",
    ("0x006f", None): "tpu-v6e",
    ("0x0076", None): "tpu-v7x",
}
NVIDIA, AMD, GOOGLE = "0x10de", "0x1002", "0x1ae0"
DISPLAY, PROCESSING = "0x03", "0x12"  # PCI classes


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One accelerator by its PCI ids."""

    address: str
    vendor: str  # NVIDIA | AMD | Google
    device: str
    catalogue: str | None = None


def pci_accelerators(root: Path = Path("/")) -> list[PciDevice]:
    """In the order of their addresses. Graphics of AMD count; whether they compute is not known."""
    found = []
    for folder in sorted((root / "sys/bus/pci/devices").glob("*")):
        vendor, device = _read(folder / "vendor"), _read(folder / "device")
        kind = _read(folder / "class")[:4]
        if vendor == GOOGLE:
            subsystem = _read(folder / "subsystem_device")
            id_ = TPUS.get((device, subsystem)) or TPUS.get((device, None))
            if id_:
                found.append(PciDevice(folder.name, "Google", device, id_))
        elif vendor in (NVIDIA, AMD) and kind in (DISPLAY, PROCESSING):
            name = "NVIDIA" if vendor == NVIDIA else "AMD"
            found.append(PciDevice(folder.name, name, device))
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""
