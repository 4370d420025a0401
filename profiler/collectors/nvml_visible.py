"""Which devices a process sees as cuda:0, cuda:1, ... : CUDA_VISIBLE_DEVICES by UUID.

The CUDA runtime numbers devices by its own order; NVML counts in PCI order. Only a UUID (or PCI
address) names a device in both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device as NVML lists it. `speed` ranks devices for FASTEST_FIRST; None: not known."""

    uuid: str
    pci: str = ""
    speed: float | None = None
    mig: tuple[str, ...] = ()  # UUIDs of its MIG instances, in NVML's order


@dataclass(frozen=True, slots=True)
class Visible:
    """UUIDs by CUDA ordinal. `note` says what is uncertain or wrong, None when nothing is."""

    uuids: tuple[str, ...]
    note: str | None = None


def visible(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> Visible:
    """The devices that a process with that environment sees, in its own order."""
    ordered, order_note = _in_cuda_order(gpus, environment.get("CUDA_DEVICE_ORDER", ""))
    text = environment.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        uuids, mig_note = _default(ordered)
        return Visible(tuple(uuids), mig_note or order_note)
    chosen: list[str] = []
    note = None
    for token in (part.strip() for part in text.split(",")):
        found = _resolve(token, ordered)
        if found is None:
            # The runtime stops reading at the first entry that names no device.
            if token not in ("", "-1", "NoDevFiles"):
                note = f'CUDA_VISIBLE_DEVICES: "{token}" names no device; the rest is ignored'
            break
        if found in chosen:
            return Visible((), f'CUDA_VISIBLE_DEVICES names "{token}" twice: no device is visible')
        chosen.append(found)
        if _ORDINAL.fullmatch(token):
            note = order_note
    return Visible(tuple(chosen), note)


_ORDINAL = re.compile(r"\+?[0-9]{1,9}")
_ORDER_NOTE = "CUDA's order FASTEST_FIRST of unlike devices is guessed from their clocks and cores"


def _in_cuda_order(gpus: Sequence[Gpu], order: str) -> tuple[list[Gpu], str | None]:
    """PCI order when asked for or when all are alike; else the fastest first, then PCI order."""
    by_pci = sorted(gpus, key=lambda gpu: gpu.pci)
    speeds = {gpu.speed for gpu in gpus}
    if order == "PCI_BUS_ID" or len(speeds) <= 1:
        return by_pci, None
    return sorted(by_pci, key=lambda gpu: -(gpu.speed or 0.0)), _ORDER_NOTE


def _default(ordered: Sequence[Gpu]) -> tuple[list[str], str | None]:
    """Without the variable: whole GPUs, or where all have MIG on, the first instance alone."""
    whole = [gpu.uuid for gpu in ordered if not gpu.mig]
    if whole:
        note = "MIG instances beside whole GPUs: CUDA shows the whole ones"
        return whole, note if len(whole) < len(ordered) else None
    return [gpu.mig[0] for gpu in ordered[:1]], None


def _resolve(token: str, ordered: Sequence[Gpu]) -> str | None:
    if _ORDINAL.fullmatch(token):
        index = int(token)
        if index >= len(ordered):
            return None
        gpu = ordered[index]
        return gpu.mig[0] if gpu.mig else gpu.uuid
    if token.startswith("MIG-"):  # drivers before 470: MIG-GPU-<uuid>/<gi>/<ci>
        return _unique(token, [mig for gpu in ordered for mig in gpu.mig])
    if token.startswith("GPU-"):
        return _unique(token, [gpu.uuid for gpu in ordered])
    return None


def _unique(prefix: str, names: Sequence[str]) -> str | None:
    """The one name with that prefix; an ambiguous prefix names none. Case does not count."""
    found = [name for name in names if name.lower().startswith(prefix.lower())]
    return found[0] if len(found) == 1 else None
