"""Opens NVML and lists what is there: cards, MIG instances, their identity and limits."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from ..accelerators.catalogue import Accelerator, by_nvml_name
from .numa import place
from .nvml_card import Card
from .nvml_driver import LIBRARY_FOLDERS, Missing, explain, initialise, load_bindings
from .nvml_gpm import support
from .nvml_visible import Gpu, visible

# Keys of `details` that one call fills: (key, function, arguments, scale)
DETAILS: tuple[tuple[str, str, tuple[int, ...], float], ...] = (
    ("compute_capability", "nvmlDeviceGetCudaComputeCapability", (), 1),
    ("link_generation_max", "nvmlDeviceGetMaxPcieLinkGeneration", (), 1),
    ("link_generation_of_gpu", "nvmlDeviceGetGpuMaxPcieLinkGeneration", (), 1),
    ("link_width_max", "nvmlDeviceGetMaxPcieLinkWidth", (), 1),
    ("power_limit_w", "nvmlDeviceGetEnforcedPowerLimit", (), 1e-3),
    ("power_default_w", "nvmlDeviceGetPowerManagementDefaultLimit", (), 1e-3),
    ("sm_clock_max_hz", "nvmlDeviceGetMaxClockInfo", (1,), 1e6),
    ("memory_clock_max_hz", "nvmlDeviceGetMaxClockInfo", (2,), 1e6),
    ("temperature_shutdown_c", "nvmlDeviceGetTemperatureThreshold", (0,), 1),
    ("temperature_slowdown_c", "nvmlDeviceGetTemperatureThreshold", (1,), 1),
    ("cores", "nvmlDeviceGetNumGpuCores", (), 1),
    ("persistence_mode", "nvmlDeviceGetPersistenceMode", (), 1),
    ("ecc_mode", "nvmlDeviceGetEccMode", (), 1),
    ("mig_mode", "nvmlDeviceGetMigMode", (), 1),
)
MOST_DEVICES = 64


@dataclass(slots=True)
class Opened:
    """NVML after opening. `failure`: there is nothing to sample, and why."""

    nvml: Any = None
    cards: list[Card] = field(default_factory=list)
    absent: list[tuple[int, Missing]] = field(default_factory=list)  # devices without a handle
    failure: Missing | None = None
    driver: dict[str, Any] = field(default_factory=dict)


def open_nvml(
    *,
    environment: Mapping[str, str],
    folders: Sequence[str] = LIBRARY_FOLDERS,
    root: Path = Path("/"),
    bindings: Callable[[], ModuleType | Missing] = load_bindings,
) -> Opened:
    """Loads, initialises and lists. Never raises; one bad device leaves the others."""
    nvml = bindings()
    if isinstance(nvml, Missing):
        return Opened(failure=nvml)
    failure = initialise(nvml, folders)
    if failure is not None:
        return Opened(failure=failure)
    opened = Opened(nvml=nvml)
    opened.driver = {
        "driver": _ask(nvml, "nvmlSystemGetDriverVersion"),
        "cuda_driver": _cuda_version(_ask(nvml, "nvmlSystemGetCudaDriverVersion_v2")),
    }
    try:
        count = nvml.nvmlDeviceGetCount()
    except Exception as error:
        opened.failure = explain(error)
        return opened
    if not count:
        opened.failure = Missing("the NVIDIA driver is here, but shows no device to this process")
    wsl = _is_wsl(root)
    for index in range(min(count, MOST_DEVICES)):
        _open_card(opened, index, wsl)
    for card in opened.cards:
        card.details |= place(card.details.get("pci", ""), os.sched_getaffinity(0), root)
    _open_instances(opened, count)
    _map_to_cuda(opened.cards, environment)
    return opened


def _ask(nvml: Any, function: str, *arguments: Any) -> Any:
    try:
        return getattr(nvml, function)(*arguments)
    except Exception:
        return None


def _cuda_version(number: int | None) -> str | None:
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"


def _is_wsl(root: Path) -> bool:
    try:
        return "microsoft" in (root / "proc/version").read_text("utf-8", "replace").lower()
    except OSError:
        return False


def _open_card(opened: Opened, index: int, wsl: bool) -> None:
    nvml = opened.nvml
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except Exception as error:
        opened.absent.append((index, explain(error)))
        return
    card = Card(nvml, index, handle)
    card.wsl = wsl
    _identify(card)
    card.details |= opened.driver
    card.limit_w = card.details.get("power_limit_w")
    without = support(nvml, handle, card.details.get("compute_capability"))
    if without is None:
        card.use_gpm()
    else:
        card.without_gpm(without)
    opened.cards.append(card)


def _identify(card: Card) -> None:
    nvml, handle = card.nvml, card.handle
    card.name = _ask(nvml, "nvmlDeviceGetName", handle) or "unknown NVIDIA device"
    card.uuid = _ask(nvml, "nvmlDeviceGetUUID", handle) or ""
    pci = _ask(nvml, "nvmlDeviceGetPciInfo", handle)
    if pci is not None:
        text = pci.busId if isinstance(pci.busId, str) else pci.busId.decode("ascii", "replace")
        card.details["pci"] = text
    for key, function, arguments, scale in DETAILS:
        value = _ask(nvml, function, handle, *arguments)
        if key == "compute_capability" and value is not None:
            card.details[key] = ".".join(map(str, value))
        elif isinstance(value, list | tuple):
            card.details[key] = value[0]
        elif value is not None:
            card.details[key] = value if scale == 1 else value * scale
    if card.wsl:
        card.details["wsl"] = True
    known = by_nvml_name(card.name)
    facts = hardware_facts(card.name, card.details, memory_bytes(card), known)
    if facts:
        card.details["facts"] = facts


def memory_bytes(card: Card) -> int | None:
    """Its total memory, asked of the newest function that answers."""
    field_ = next(reading.field for reading in card.readings if reading.field.name == "memory")
    for _, reader in field_.readers:
        try:
            total = field_.metrics[1].check(reader(card.nvml, card.handle)[1])
        except Exception:
            continue
        return None if isinstance(total, Missing) else int(total)
    return None


def hardware_facts(
    name: str, details: Mapping[str, Any], memory: int | None, known: Accelerator | None
) -> list[str]:
    """What is other than the catalogue (or the card itself) lets one expect."""
    facts = []
    if known is None:
        facts.append(f'"{name}" is not in the catalogue: no peak rates are known')
    elif memory and known.memory_bytes and not 0.8 < memory / known.memory_bytes < 1.2:
        facts.append(
            f"it has {memory / 2**30:.0f} GiB of memory, a {known.name} has {known.memory_gb:g} GB"
        )
    slot, card = details.get("link_generation_max"), details.get("link_generation_of_gpu")
    if slot and card and slot < card:
        facts.append(f"the card is made for PCIe generation {card}, its slot gives {slot}")
    limit, default = details.get("power_limit_w"), details.get("power_default_w")
    if limit and default and limit < 0.95 * default:
        facts.append(f"its power limit is {limit:.0f} W, by default it is {default:.0f} W")
    return facts


def catalogue_id(card: Card) -> str | None:
    """None for a MIG instance: a slice has not the card's peaks."""
    known = None if card.parent is not None else by_nvml_name(card.name)
    return known.id if known else None


def _open_instances(opened: Opened, count: int) -> None:
    """MIG instances are numbered after all cards, in NVML's order."""
    nvml = opened.nvml
    number = count
    for card in list(opened.cards):
        if card.details.get("mig_mode") != 1:
            continue
        for index in range(_ask(nvml, "nvmlDeviceGetMaxMigDeviceCount", card.handle) or 0):
            handle = _ask(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", card.handle, index)
            if handle is None:
                continue
            instance = _open_instance(nvml, number, handle, card)
            opened.cards.append(instance)
            number += 1


def _open_instance(nvml: Any, number: int, handle: Any, parent: Card) -> Card:
    card = Card(nvml, number, handle, parent)
    card.name = _ask(nvml, "nvmlDeviceGetName", handle) or f"{parent.name} MIG"
    card.uuid = _ask(nvml, "nvmlDeviceGetUUID", handle) or ""
    card.details = {
        "mig_parent": parent.device,
        "gpu_instance": _ask(nvml, "nvmlDeviceGetGpuInstanceId", handle),
        "compute_instance": _ask(nvml, "nvmlDeviceGetComputeInstanceId", handle),
    }
    instance = card.details["gpu_instance"]
    if parent.gpm is not None and instance is not None:
        card.use_gpm(instance, parent.handle)
    else:
        card.without_gpm(Missing("n/a (MIG: needs GPM of Hopper or newer)"))
    return card


def _map_to_cuda(cards: Sequence[Card], environment: Mapping[str, str]) -> None:
    """Notes on each device which cuda:N it is for a process with that environment."""
    seen, note = cuda_devices(cards, environment)
    for card in cards:
        card.details["cuda_ordinal"] = seen.index(card.device) if card.device in seen else None
        if note:
            card.details["cuda_note"] = note


def cuda_devices(
    cards: Sequence[Card], environment: Mapping[str, str]
) -> tuple[list[int], str | None]:
    """Our device numbers in the order of cuda:0, cuda:1, ...; and what is uncertain about it."""
    numbers = {card.uuid or f"without a UUID: {card.device}": card.device for card in cards}
    uuids = {number: uuid for uuid, number in numbers.items()}
    gpus = [
        Gpu(
            uuids[card.device],
            str(card.details.get("pci", "")),
            _speed(card),
            tuple(uuids[c.device] for c in cards if c.parent is card),
        )
        for card in cards
        if card.parent is None
    ]
    seen = visible(gpus, environment)
    return [numbers[uuid] for uuid in seen.uuids], seen.note


def _speed(card: Card) -> float | None:
    """A rank for CUDA's FASTEST_FIRST: cores times clock, else the name's generation."""
    cores, clock = card.details.get("cores"), card.details.get("sm_clock_max_hz")
    capability = re.match(r"(\d+)\.(\d+)", str(card.details.get("compute_capability", "")))
    if cores and clock:
        return float(cores * clock)
    return float(capability.group(1)) if capability else None
