"""What a move to another kind of accelerator would need done, as far as the capture shows it."""

from __future__ import annotations

from ..accelerators.catalogue import Accelerator
from . import curves
from .basis import Basis


def work(basis: Basis, device: Accelerator, precision: str | None) -> list[str]:
    """Work items, the heaviest first; empty for the same kind of device."""
    if not basis.operators:
        return []
    items = _precision(basis, device, precision)
    if device.vendor == "NVIDIA":
        return items
    if basis.custom_operators:
        names = ", ".join(basis.custom_operators[:5])
        items.append(f"port the custom operators {names}")
    if device.kind == "tpu":
        items.append("run through torch_xla or JAX; shapes have to stay the same between steps")
        if basis.precision == "fp16":
            items.append("use bf16 instead of fp16")
    elif device.vendor == "AMD":
        items.append("use the ROCm build of PyTorch; CUDA extensions have to be built with hipcc")
    else:
        items.append(f"use {device.vendor}'s build of PyTorch")
    return items


def _precision(basis: Basis, device: Accelerator, precision: str | None) -> list[str]:
    wanted = precision or basis.precision
    if wanted is None:
        return []
    runs = curves.usable_precision(device, wanted)
    if runs is None:
        return [f"{wanted} does not run there"]
    if wanted not in (runs, "fp32"):
        return [f"{wanted} is not native there: it runs as {runs}"]
    return []
