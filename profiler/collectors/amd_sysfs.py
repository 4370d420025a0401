"""AMD GPUs by the files of the amdgpu driver below /sys/class/drm: no library, no privilege.

`pcie_bw` is not read: it counts for a whole second before it answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .amd_gpu import (
    BUSY,
    CLOCK,
    GENERATION,
    GENERATIONS,
    MEMORY_BUSY,
    MEMORY_CLOCK,
    PCI_NAMES,
    POWER,
    POWER_LIMIT,
    TEMPERATURE,
    TOTAL,
    USED,
    WIDTH,
    Ask,
    Gpu,
)  # fmt: skip
from .device_values import number
from .nvml_driver import NOT_SUPPORTED, Missing

VENDOR = "0x1002"


def find(root: Path = Path("/")) -> list[Gpu]:
    """The GPUs that amdgpu drives, in the order of the bus."""
    found = []
    for card in (root / "sys/class/drm").glob("card*"):
        device = card / "device"
        if not card.name[4:].isdigit() or text(device / "vendor") != VENDOR:
            continue
        if (device / "mem_info_vram_total").exists() or (device / "gpu_busy_percent").exists():
            found.append(_gpu(device))
    return sorted(found, key=lambda gpu: gpu.pci)


def _gpu(device: Path) -> Gpu:
    number_ = text(device / "device") or ""
    name = PCI_NAMES.get(number_) or text(device / "product_name") or f"AMD GPU {number_}"
    total = number(text(device / "mem_info_vram_total"))
    unique = text(device / "unique_id")
    details = {
        "source": "sysfs",
        "link_generation_max": generation(text(device / "max_link_speed")),
        "link_width_max": number(text(device / "max_link_width")),
    }
    return Gpu(
        device.resolve().name,
        name,
        f"GPU-{unique}" if unique else None,
        int(total) if total else None,
        tuple(_asks(device)),
        {key: value for key, value in details.items() if value is not None},
    )


def _asks(device: Path) -> Iterable[Ask]:
    sensors = next(iter(sorted(device.glob("hwmon/hwmon*"))), device / "hwmon/hwmon0")
    # Newer ones (MI300) give the power of now, older ones its average.
    power = _first(sensors, "power1_average", "power1_input")
    yield Ask("busy", (BUSY,), _file(device / "gpu_busy_percent"))
    yield Ask("memory busy", (MEMORY_BUSY,), _file(device / "mem_busy_percent"))
    yield Ask("memory used", (USED,), _file(device / "mem_info_vram_used"))
    yield Ask("memory total", (TOTAL,), _file(device / "mem_info_vram_total"))
    yield Ask("power", (POWER,), _file(power, 1e-6))
    yield Ask("power limit", (POWER_LIMIT,), _file(sensors / "power1_cap", 1e-6))
    yield Ask("temperature", (TEMPERATURE,), _file(_hottest(sensors), 1e-3))
    yield Ask("clock", (CLOCK,), _file(sensors / "freq1_input", 1e-6))
    yield Ask("memory clock", (MEMORY_CLOCK,), _file(sensors / "freq2_input", 1e-6))
    yield Ask("link speed", (GENERATION,), lambda: (_generation(device),))
    yield Ask("link width", (WIDTH,), _file(device / "current_link_width"))


def _hottest(sensors: Path) -> Path:
    """The sensor at the hottest place, which is what throttles; else the edge's."""
    for label in sorted(sensors.glob("temp*_label")):
        if text(label) == "junction":
            return label.with_name(label.name.replace("label", "input"))
    return sensors / "temp1_input"


def _first(folder: Path, *names: str) -> Path:
    return next((folder / name for name in names if (folder / name).exists()), folder / names[0])


def _file(path: Path, scale: float = 1.0) -> Callable[[], tuple[Any, ...]]:
    """Reads one number."""

    def read() -> tuple[Any, ...]:
        raw = _read(path)
        value = None if isinstance(raw, Missing) else number(raw)
        return (raw if value is None else value * scale,)

    return read


def _generation(device: Path) -> Any:
    raw = _read(device / "current_link_speed")
    return raw if isinstance(raw, Missing) else generation(raw)


def generation(speed: str | None) -> int | None:
    """PCIe generation of "16.0 GT/s PCIe"."""
    rate = number((speed or "").partition(" ")[0])
    return GENERATIONS.get(float(rate)) if rate is not None else None


def _read(path: Path) -> str | Missing:
    try:
        return path.read_text("ascii", "replace").strip()
    except FileNotFoundError:
        return Missing(f"the driver has no {path.name} for this GPU", NOT_SUPPORTED)
    except OSError as error:
        return Missing(f"{path.name}: {error.strerror or error}", NOT_SUPPORTED)


def text(path: Path) -> str | None:
    """A file's content, None when there is none."""
    found = _read(path)
    return None if isinstance(found, Missing) else found or None
