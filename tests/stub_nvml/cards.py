"""Cards of the catalogue as the stub plays them, with the values of a healthy busy device."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

GIB = 2**30
# name, memory, compute capability, GPM, PCIe generation, power limit in mW, NVML's architecture
NAMES = {
    "h100": ("NVIDIA H100 80GB HBM3", 80 * GIB, 90, 1, 5, 700_000, 9),
    "h200": ("NVIDIA H200", 141 * GIB, 90, 1, 5, 700_000, 9),
    "a100-80": ("NVIDIA A100-SXM4-80GB", 80 * GIB, 80, 0, 4, 400_000, 7),
    "a100-40": ("NVIDIA A100-SXM4-40GB", 40 * GIB, 80, 0, 4, 400_000, 7),
    "l4": ("NVIDIA L4", 23034 * 2**20, 89, 0, 4, 72_000, 8),
    "t4": ("Tesla T4", 15360 * 2**20, 75, 0, 3, 70_000, 6),
    "g4": ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887 * 2**20, 120, 0, 5, 600_000, 10),
    "unknown": ("NVIDIA Prototype X1", 24 * GIB, 99, 0, 5, 300_000, 11),
}
GPM = {2: 80.0, 3: 40.0, 5: 60.0, 7: 58.0, 10: 35.0, 11: 0.0, 12: 12.0, 13: 1.0}
GPM |= {20: 1024.0, 21: 2048.0, 60: 100.0, 61: 200.0}


@dataclass
class Card:
    """One card: its texts, its values (numbers, or the words of a `set` line), its rules."""

    texts: dict[str, str]
    values: dict[str, object]
    rules: list[str] = field(default_factory=list)
    processes: list[str] = field(default_factory=list)
    xids: list[str] = field(default_factory=list)
    mig: list[Card] = field(default_factory=list)

    def lines(self, begin: str = "device") -> Iterable[str]:
        yield begin
        yield from (f"text {key} {text}" for key, text in self.texts.items())
        yield from (f"set {key} {value}" for key, value in self.values.items() if value is not None)
        yield from self.rules
        yield from (f"process {line}" for line in self.processes)
        yield from (f"xid {line}" for line in self.xids)
        for instance in self.mig:
            yield from instance.lines("mig")


def uuid(number: int, kind: str = "GPU") -> str:
    return f"{kind}-{number:08x}-aaaa-bbbb-cccc-{number:012x}"


def card(kind: str, number: int = 0, **changes: object) -> Card:
    """A healthy card at 80 % load. `changes` are keys of `set` lines; None: not supported."""
    name, memory, capability, gpm, generation, limit_mw, architecture = NAMES[kind]
    values: dict[str, object] = {
        "memory_total": memory,
        "memory_used": memory // 4,
        "memory_reserved": 512 * 2**20,
        "gpu_util": 80,
        "memory_util": 40,
        "power_mw": limit_mw // 2,
        "power_limit_mw": limit_mw,
        "power_default_mw": limit_mw,
        "power_min_mw": limit_mw // 4,
        "power_max_mw": limit_mw,
        "energy_mj": f"ramp 0=1000000 1000={1_000_000 + limit_mw // 2 * 1000}",
        "clock.0": 1600,
        "clock.1": 1600,
        "clock.2": 2600,
        "max_clock.1": 1980,
        "max_clock.2": 2619,
        "throttle": 0,
        "temperature": 55,
        "threshold.0": 95,
        "threshold.1": 90,
        "pcie_generation": generation,
        "pcie_width": 16,
        "pcie_max_generation": generation,
        "pcie_gpu_max_generation": generation,
        "pcie_max_width": 16,
        "pcie_tx_kbps": 1_000_000,
        "pcie_rx_kbps": 2_000_000,
        "pcie_replays": 0,
        "compute_capability": capability,
        "architecture": architecture,
        "persistence": 1,
        "compute_mode": 0,
        "pstate": 0,
        "ecc": 1,
        "ecc_corrected": 0,
        "ecc_uncorrected": 0,
        "field.82": 60,
        "field.4": 0,
        "mig_mode": 0 if capability in (80, 90) else None,
    }
    values |= {f"violation.{policy}": 0 for policy in (0, 1, 2, 3, 4, 5)}
    if gpm:
        values |= {"gpm_supported": 1, **{f"gpm.{id_}": value for id_, value in GPM.items()}}
    values |= {key.replace("__", "."): value for key, value in changes.items()}
    texts = {"name": name, "uuid": uuid(number + 1), "pci": f"00000000:{number * 16 + 11:02X}:00.0"}
    return Card(texts, values)


def write_script(path: Path, cards: Iterable[Card], *, head: Iterable[str] = ()) -> Path:
    """Writes the script whole or not at all: the stub may read it at any moment."""
    lines = [*head, *(line for item in cards for line in item.lines())]
    partial = path.with_suffix(".partial")
    partial.write_text("\n".join(lines) + "\n", "utf-8")
    return partial.replace(path)
