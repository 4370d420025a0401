"""How long an operator takes on an accelerator: a roofline with the losses that matter.

    rate   the dense peak, less what surrounds the tensor cores (issue), less what the power limit
           takes, times how far the operator fills the device (waves, depth, width)
    bytes  over the memory bandwidth, more for what stays in the last-level cache
    time   (compute^3 + memory^3)^(1/3) + the start of a kernel

All rates are dense; sparse figures are not in the catalogue.
"""

from __future__ import annotations

import math
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from ..accelerators.catalogue import Accelerator
from .operators import Operator

Parameters = dict[str, dict[str, float]]

# Precision that runs where another is missing, in this order. Nothing falls to a lower precision.
FALLBACK: dict[str, tuple[str, ...]] = {
    "fp8": ("fp8", "bf16", "fp16", "fp32"),
    "bf16": ("bf16", "fp32"),  # Volta and Turing: no bf16 products, frameworks go through fp32
    "fp16": ("fp16", "bf16", "fp32"),
    "tf32": ("tf32", "fp32"),
    "fp32": ("fp32", "tf32", "bf16"),  # TPUs: bf16 passes are what fp32 runs on there
    "fp64": ("fp64",),
    "int8": ("int8", "fp16", "bf16", "fp32"),
}
TENSOR = {"fp8", "bf16", "fp16", "tf32", "int8", "fp4"}
TILE = 128 * 128
_NM12 = ("volta", "turing", "pascal")
_NM8 = ("ampere", "ga10", "cdna 2", "tpu v4", "tpu v3")
POWER_WITHOUT_LIMIT = 1e30


@cache
def parameters() -> Parameters:
    """The fitted parameters, as shipped."""
    return tomllib.loads((resources.files(__package__) / "model.toml").read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class Target:
    """What the curves need of an accelerator at one precision; rates per second."""

    name: str
    precision: str  # that really runs
    peak: float  # dense
    vector: float  # fp32 vector rate
    bytes_per_s: float
    cores: float
    cache_bytes: float
    tdp_w: float | None
    watts_yield: float  # tensor FLOP/s a watt
    tensor: bool
    architecture: str
    own_memory: bool = False  # tensor cores with a memory of their own
    share: float | None = None  # of the peak, where the curves were not fitted


def usable_precision(device: Accelerator, wanted: str) -> str | None:
    """The precision that `wanted` runs in on that device; None when it cannot run there."""
    return next((p for p in FALLBACK.get(wanted, (wanted,)) if p in device.flops), None)


def target(device: Accelerator, wanted: str, model: Parameters | None = None) -> Target | None:
    """The device at that precision; None when its figures are not known."""
    model = model or parameters()
    precision = usable_precision(device, wanted)
    if precision is None or device.bytes_per_s is None:
        return None
    peak = device.flops[precision]
    # Chips without a vector rate in the catalogue (TPU, Gaudi): the share that GPUs have.
    vector = device.flops.get("fp32") or peak / 12.0
    tensor = precision in TENSOR and peak > 2.0 * vector * 0.99
    return Target(
        device.id, precision, peak, vector, device.bytes_per_s,
        _processors(device), (device.l2_mb or 6.0) * 1e6, device.tdp_w,
        _watts_yield(device, model["power"]), tensor, device.architecture,
        "gb10" in device.architecture.lower() or "gb11" in device.architecture.lower(),
        _share(device, model["other_vendors"]),
    )  # fmt: skip


def _share(device: Accelerator, given: dict[str, float]) -> float | None:
    return None if device.vendor == "NVIDIA" else given.get(device.vendor, given["other"])


def _processors(device: Accelerator) -> float:
    """Independent units that tiles are shared out to; a TPU's core is one wide unit."""
    return float(device.cores or 80) if device.kind == "gpu" else 32.0


def _watts_yield(device: Accelerator, power: dict[str, float]) -> float:
    name = device.architecture.lower()
    if any(n in name for n in _NM12):
        return power["nm12"]
    if any(n in name for n in _NM8):
        return math.sqrt(power["nm12"] * power["nm4"])
    return power["nm4"]


def sustained(device: Target, model: Parameters) -> float:
    """FLOP/s of a product that fills the device."""
    eff, power = model["efficiency"], model["power"]
    if device.share is not None:
        return device.peak * device.share
    if device.tensor:
        issue = eff["issue_share"] * (eff["own_memory_issue"] if device.own_memory else 1.0)
        rate = 1.0 / (1.0 / (device.peak * eff["tensor"]) + issue / device.vector)
        cost = 1.0
    else:
        rate, cost = device.peak * eff["vector"], power["vector_cost"]
    # fp64 on consumer cards is so slow that power never limits it
    if device.tdp_w is None or device.peak < 2e12:
        return rate
    limit = device.tdp_w * device.watts_yield / cost
    return float((rate**-4 + limit**-4) ** -0.25)


def seconds(
    op: Operator, device: Target, rate: float, model: Parameters, fused: bool = False
) -> float:
    """Device time of all calls of an operator; `rate` is sustained(device)."""
    eff = model["efficiency"]
    calls = float(max(1, op.calls))
    flops, moved = op.flops or 0.0, op.bytes or 0.0
    if op.kind == "view":
        return 0.0
    if op.kind == "stream":
        compute = flops / (device.vector * 0.5)
        if fused:
            moved *= model["overhead"]["fusion"]
            calls *= model["overhead"]["fusion"]
    else:
        # A product too small or thin for tiles runs as dot products on the vector units instead.
        tiled = rate * _fill(op, device, eff)
        compute = flops / max(tiled, min(rate, device.vector * eff["untiled"]))
    resident = device.cache_bytes / (device.cache_bytes + moved / calls)
    speed = device.bytes_per_s * eff["bandwidth"] * (1.0 + (eff["cache_gain"] - 1.0) * resident)
    memory = moved / speed
    busy = float((compute**3 + memory**3) ** (1.0 / 3.0))
    return busy + calls * model["overhead"]["kernel_s"]


def _fill(op: Operator, device: Target, eff: dict[str, float]) -> float:
    """Share of the sustained rate that an operator of this size reaches, 0..1."""
    small = 1.0 if device.tensor else 0.25  # vector kernels use smaller tiles
    lean = 1.0 if device.tensor else 0.125
    waves = op.outputs / (TILE * device.cores)
    fill = waves / (waves + eff["tile_waves"] * small) if op.outputs else 1.0
    if op.depth:
        fill *= op.depth / (op.depth + eff["depth"] * lean)
    if op.width:
        fill *= op.width / (op.width + eff["width"] * lean)
    if op.kind == "grouped":
        fill *= eff["grouped"]
    return max(fill, 1e-4)


def step_seconds(
    ops: list[Operator], device: Target, model: Parameters | None = None, fused: bool = False
) -> float:
    """Device time of a step made of these operators."""
    model = model or parameters()
    rate = sustained(device, model)
    return sum(seconds(op, device, rate, model, fused) for op in ops)


def exchange_seconds(
    device: Accelerator, gradient_bytes: float, count: int, model: Parameters | None = None
) -> float:
    """Exposed time of the gradients' ring all-reduce over `count` devices."""
    if count < 2:
        return 0.0
    link = (model or parameters())["link"]
    moved = 2.0 * (count - 1) / count * gradient_bytes
    return moved / link_bytes_per_s(device, link) * (1.0 - link["overlap"])


def link_bytes_per_s(device: Accelerator, link: dict[str, float]) -> float:
    """Bandwidth of one direction between devices; PCIe through the host without a link."""
    found = re.match(r"(?:NVLink|Infinity|ICI)\D*?(?:\d\D+?)?(\d+(?:\.\d+)?) GB/s", _link(device))
    if found is None:
        return link["pcie_bytes_per_s"]
    return float(found[1]) / 2.0 * 1e9 * link["efficiency"]


def _link(device: Accelerator) -> str:
    return device.device_link or ""
