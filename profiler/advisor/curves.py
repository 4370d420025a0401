"""How long an operator takes on an accelerator: a roofline with the losses that matter.

    rate   the dense peak, less what surrounds the tensor cores (issue), less what the power limit
           takes, times how far the operator fills the device (waves, depth, width)
    bytes  over the memory bandwidth, more for what stays in the last-level cache, less for
           element-wise kernels whose processors cannot ask for all that the memory gives
    time   (compute^3 + memory^3)^(1/3) + the start of a kernel

All rates are dense; sparse figures are not in the catalogue. The formulas take numbers or columns
of them: benchmarks/projection evaluates and fits them over whole tables at once.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from ..accelerators.catalogue import Accelerator
from .operators import STREAMS

Parameters = dict[str, dict[str, Any]]
Number = Any  # float, or a column of them

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
THIN = 16.0  # rows of a matrix product that reads weights, and little else
_NM12 = ("volta", "turing", "pascal")
_NM8 = ("ampere", "ga10", "cdna 2", "tpu v4", "tpu v3")
# Products of one chip, whose factors in model.toml are shared
_CHIPS = {"a100": "a100", "v100": "v100", "h100": "h100", "h200": "h100", "gh200": "h100"}
_TINY = 1e-40  # keeps the root of a sum differentiable at zero


@cache
def parameters() -> Parameters:
    """The fitted parameters, as shipped."""
    return tomllib.loads((resources.files(__package__) / "model.toml").read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class Target:
    """What the curves need of an accelerator at one precision; rates per second."""

    name: str
    precision: str  # that really runs
    peak: Number  # dense
    vector: Number  # fp32 vector rate
    bytes_per_s: Number
    cores: Number
    cache_bytes: Number
    tdp_w: Number | None
    process: str  # of the silicon: nm12 | nm8 | nm4
    tensor: bool
    architecture: str
    chip: str
    own_memory: bool = False  # tensor cores with a memory of their own
    emulated: bool = False  # 16-bit numbers worked on as fp32
    slow_fp64: bool = False  # fp64 units are a token: one for 32 or 64 of fp32
    share: float | None = None  # of the peak, where the curves were not fitted
    products: Number = 1.0  # measured over the curves, of this chip: tensor-core products,
    scalar: Number = 1.0  # vector products,
    bandwidth: Number = 1.0  # memory


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
    chip = chip_of(device)
    return Target(
        device.id, precision, peak, vector, device.bytes_per_s,
        _processors(device), (device.l2_mb or 6.0) * 1e6, device.tdp_w, _process(device),
        precision in TENSOR and peak > 2.0 * vector * 0.99, device.architecture, chip,
        "gb10" in device.architecture.lower() or "gb11" in device.architecture.lower(),
        wanted in ("fp16", "bf16") and precision == "fp32",
        precision == "fp64" and peak < 0.1 * vector,
        _share(device, model["other_vendors"]),
        *(model[f"chip_{part}"].get(chip, 1.0) for part in ("products", "vector", "bandwidth")),
    )  # fmt: skip


def chip_of(device: Accelerator) -> str:
    """The name that a chip's own factors stand under in model.toml."""
    return _CHIPS.get(device.id.split("-")[0], device.id)


def _share(device: Accelerator, given: dict[str, float]) -> float | None:
    return None if device.vendor == "NVIDIA" else given.get(device.vendor, given["other"])


def _processors(device: Accelerator) -> float:
    """Independent units that tiles are shared out to; a TPU's core is one wide unit."""
    return float(device.cores or 80) if device.kind == "gpu" else 32.0


def _process(device: Accelerator) -> str:
    name = device.architecture.lower()
    if any(n in name for n in _NM12):
        return "nm12"
    return "nm8" if any(n in name for n in _NM8) else "nm4"


def _watts_yield(process: str, power: dict[str, Number]) -> Number:
    """Tensor-core FLOP/s a watt; of the step between, the geometric mean."""
    if process == "nm8":
        return (power["nm12"] * power["nm4"]) ** 0.5
    return power[process]


def sustained(device: Target, model: Parameters) -> Number:
    """FLOP/s of a product that fills the device."""
    eff, power = model["efficiency"], model["power"]
    if device.share is not None:
        return device.peak * device.share
    if device.precision == "fp64":
        return device.peak * device.scalar * eff["fp64_slow" if device.slow_fp64 else "fp64"]
    if device.tensor:
        issue = eff["issue_share"] * (eff["own_memory_issue"] if device.own_memory else 1.0)
        rate, cost, factor = 1.0 / (1.0 / device.peak + issue / device.vector), 1.0, device.products
    else:
        rate, cost, factor = device.peak * eff["vector"], power["vector_cost"], device.scalar
    if device.tdp_w is not None:
        limit = device.tdp_w * _watts_yield(device.process, power) / cost
        rate = (rate**-4 + limit**-4) ** -0.25
    return rate * factor


def seconds(
    op: Any, device: Target, rate: Number, model: Parameters, fused: Number = 1.0
) -> Number:
    """Device time of all calls of an operator; `rate` is sustained(device), `fused` the share of
    element-wise kernels and their bytes that is left where a compiler or an engine fuses."""
    if op.kind == "view":
        return 0.0
    left = fused if op.kind in STREAMS else 1.0
    compute = _compute_s(op, device, rate, model["efficiency"])
    memory = _memory_s(op, device, model["efficiency"], left)
    busy = (compute**3 + memory**3 + _TINY) ** (1.0 / 3.0)
    return op.calls * (busy + left * op.kernels * model["overhead"]["kernel_s"])


def _compute_s(op: Any, device: Target, rate: Number, eff: dict[str, Number]) -> Number:
    """Arithmetic of one call."""
    flops = (0.0 if op.flops is None else op.flops) / op.calls
    vector = device.peak if device.precision == "fp64" else device.vector
    if op.kind in STREAMS:
        return flops / (vector * eff["stream"])
    if op.kind == "depthwise":  # no tensor cores for them
        slower = eff["emulated_thin"] if device.emulated else 1.0
        return flops / (vector * eff["depthwise"]) * slower
    if op.kind == "attention":
        return flops / (rate * eff["attention"])
    if op.kind == "conv" and not device.tensor and device.precision == "fp32":
        # 3x3 convolutions by Winograd's algorithm: up to 2.25 times fewer products
        rate = rate * _where(op.taps == 9.0, eff["winograd"], 1.0)
    # A product too small or thin for tiles runs as dot products on the vector units instead.
    reached = _larger(rate * _fill(op, device, eff), _smaller(rate, vector * eff["untiled"]))
    if not device.emulated:
        return flops / reached
    return flops / reached * _where(op.taps == 1.0, eff["emulated_thin"], eff["emulated"])


def _memory_s(op: Any, device: Target, eff: dict[str, Number], left: Number) -> Number:
    """Traffic of one call."""
    moved = (0.0 if op.bytes is None else op.bytes) / op.calls * left
    speed = device.bytes_per_s * eff["bandwidth"]
    if op.kind in STREAMS and device.share is None:
        speed = 1.0 / (1.0 / speed + 1.0 / (device.cores * eff["core_bytes_per_s"]))
    if op.kind == "norm":
        moved = moved * eff["norm_passes"]
    full = moved / (device.cache_bytes * eff["cache_share"]) + 1e-9
    resident = 1.0 / (1.0 + full ** eff["cache_edge"])
    if op.kind == "gemm":  # a thin product is the reading of weights that no kernel just wrote
        resident = resident * _where(op.width > THIN, 1.0, 0.0)
    return moved / (speed * device.bandwidth * (1.0 + (eff["cache_gain"] - 1.0) * resident))


def _fill(op: Any, device: Target, eff: dict[str, Number]) -> Number:
    """Share of the sustained rate that an operator of this size reaches, 0..1."""
    small = 1.0 if device.tensor else 0.25  # vector kernels use smaller tiles
    lean = 1.0 if device.tensor else 0.125
    # long inner products are split over the processors that tiles leave idle
    tiles = op.outputs / op.kernels / TILE * (1.0 + op.depth / eff["split"])
    waves = tiles / device.cores
    fill = (waves + _TINY) / (waves + eff["tile_waves"] * small + _TINY)
    fill = fill * op.depth / (op.depth + eff["depth"] * lean + _TINY)
    fill = fill * op.width / (op.width + eff["width"] * lean + _TINY)
    return fill * eff["grouped"] if op.kind == "grouped" else fill


def _larger(a: Number, b: Number) -> Number:
    return max(a, b) if isinstance(a, float) else a.maximum(b)


def _where(condition: Any, yes: Number, no: Number) -> Number:
    if isinstance(condition, bool):
        return yes if condition else no
    return yes * condition + no * ~condition


def _smaller(a: Number, b: Number) -> Number:
    return min(a, b) if isinstance(a, float) else a.minimum(b)


def exchange_seconds(
    device: Accelerator, gradient_bytes: float, count: int, model: Parameters | None = None
) -> float:
    """Exposed time of the gradients' ring all-reduce over `count` devices."""
    if count < 2:
        return 0.0
    link = (model or parameters())["link"]
    moved = 2.0 * (count - 1) / count * gradient_bytes
    return float(moved / link_bytes_per_s(device, link) * (1.0 - link["overlap"]))


def link_bytes_per_s(device: Accelerator, link: dict[str, float]) -> float:
    """Bandwidth of one direction between devices; PCIe through the host without a link."""
    found = re.match(r"(?:NVLink|Infinity|ICI)\D*?(?:\d\D+?)?(\d+(?:\.\d+)?) GB/s", _link(device))
    if found is None:
        return float(link["pcie_bytes_per_s"])
    return float(found[1]) / 2.0 * 1e9 * float(link["efficiency"])


def _link(device: Accelerator) -> str:
    return device.device_link or ""
