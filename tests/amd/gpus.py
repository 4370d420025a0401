"""AMD GPUs as the amdgpu driver's files and as amdsmi give them."""

from __future__ import annotations

import threading
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

GIB = 2**30
FILES = {  # of an MI300X at work, as in /sys/class/drm/cardN/device
    "vendor": "0x1002",
    "device": "0x74a1",
    "class": "0x120000",
    "gpu_busy_percent": "98",
    "mem_busy_percent": "37",
    "mem_info_vram_used": str(120 * GIB),
    "mem_info_vram_total": str(192 * GIB),
    "unique_id": "0123456789abcdef",
    "current_link_speed": "32.0 GT/s PCIe",
    "current_link_width": "16",
    "max_link_speed": "32.0 GT/s PCIe",
    "max_link_width": "16",
    "hwmon/hwmon7/power1_input": "612000000",
    "hwmon/hwmon7/power1_cap": "750000000",
    "hwmon/hwmon7/temp1_label": "edge",
    "hwmon/hwmon7/temp1_input": "48000",
    "hwmon/hwmon7/temp2_label": "junction",
    "hwmon/hwmon7/temp2_input": "71000",
    "hwmon/hwmon7/freq1_label": "sclk",
    "hwmon/hwmon7/freq1_input": "2100000000",
    "hwmon/hwmon7/freq2_input": "1300000000",
}


def tree(root: Path, *gpus: dict[str, str | None]) -> Path:
    """/sys with a GPU for each dict of changes; None takes a file away. Cards count backwards."""
    for number, changes in enumerate(gpus):
        device = root / f"sys/devices/pci0000:00/0000:{number + 1:02x}:00.0"
        for name, content in (FILES | changes).items():
            if content is not None:
                (device / name).parent.mkdir(parents=True, exist_ok=True)
                (device / name).write_text(content + "\n")
        links = {
            root / "sys/bus/pci/devices" / device.name: device,
            root / f"sys/class/drm/card{len(gpus) - number}/device": device,
            root / f"sys/class/drm/card{len(gpus) - number}-DP-1/device": device,
        }
        for link, target in links.items():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)
    return root


class SmiError(Exception):
    """Of no class that accelprof knows."""

    def get_error_info(self) -> str:
        return "AMDSMI_STATUS_NOT_SUPPORTED - Feature\n not supported"


def readings(**changes: Any) -> dict[str, Any]:
    """What each function of amdsmi 7 answers for an MI300X at work; an exception is raised."""
    usual: dict[str, Any] = {
        "amdsmi_get_gpu_asic_info": {
            "market_name": "AMD Instinct MI300X", "target_graphics_version": "gfx942",
        },
        "amdsmi_get_gpu_device_bdf": "0000:0c:00.0",
        "amdsmi_get_gpu_device_uuid": "12ff74a1-0000-1000-80d7-2d3fde6ad2bb",
        "amdsmi_get_gpu_activity": {"gfx_activity": 98, "umc_activity": 37, "mm_activity": "N/A"},
        "amdsmi_get_gpu_vram_usage": {"vram_total": 196592, "vram_used": 122880},
        "amdsmi_get_power_info": {
            "socket_power": 612, "current_socket_power": 612, "average_socket_power": "N/A",
            "power_limit": 750,
        },
        "amdsmi_get_power_cap_info": {"power_cap": 750_000_000},
        "amdsmi_get_energy_count": {
            "energy_accumulator": 10_000_000_000, "counter_resolution": 15.3, "timestamp": 1,
        },
        "JUNCTION": 71,
        "EDGE": 48,
        "GFX": {"clk": 2100, "min_clk": 132, "max_clk": 2100},
        "MEM": {"clk": 1300, "min_clk": 900, "max_clk": 1300},
        "amdsmi_get_pcie_info": {
            "pcie_static": {"max_pcie_width": 16, "max_pcie_speed": 32000},
            "pcie_metric": {"pcie_width": 16, "pcie_speed": 32000},
        },
    }  # fmt: skip
    return usual | changes


class Kind(IntEnum):
    """amdsmi's enumerations, as far as they are asked for."""

    CURRENT = 0
    JUNCTION = 1
    EDGE = 2
    GFX = 3
    MEM = 4


class Smi(SimpleNamespace):
    """A module like amdsmi. A reading that is a threading.Event hangs until it is set."""

    def __init__(self, *gpus: dict[str, Any]) -> None:
        super().__init__(
            AmdSmiTemperatureMetric=Kind, AmdSmiTemperatureType=Kind, AmdSmiClkType=Kind
        )
        self.gpus = gpus
        self.shut_down = False

    def amdsmi_get_processor_handles(self) -> list[int]:
        return list(range(len(self.gpus)))

    def amdsmi_shut_down(self) -> None:
        self.shut_down = True

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("amdsmi_get"):
            raise AttributeError(name)

        def call(handle: int, kind: Kind | None = None, *_: Any) -> Any:
            answer = self.gpus[handle][name if kind is None else kind.name]
            if isinstance(answer, threading.Event):
                answer.wait(20)
            if isinstance(answer, BaseException):
                raise answer
            return answer

        return call
