"""Language models: tokens a second from the bytes that a token reads, and from the FLOPs.

    decode    a token of every sequence: all weights once, and each sequence's keys and values
    prefill   the whole context at once: 2 FLOPs a parameter and token, and attention
    batch     what fits beside the weights, by the keys and values of a sequence
    training  tokens a second and model FLOPs utilisation (MFU), from the projected step

Layers, heads and lengths come from the attention of the captured step (decoder.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from ..accelerators.catalogue import Accelerator
from . import curves
from .decoder import Shape
from .memory import CONTEXT_BYTES, USABLE
from .operators import Operator
from .transfer import beside, join

if TYPE_CHECKING:
    from .basis import Basis

# Of the printed bandwidth that streaming weights reaches: 0.76-0.82 on five GDDR cards, Llama 3 8B
# in llama.cpp (XiongjieDai/GPU-Benchmarks-on-LLM-Inference, 2024-05)
STREAMING = 0.8
KERNEL_S = 2.3e-6  # between two kernels of a token, whose tails overlap; from the same table
OFF = (0.5, 1.5)  # a measured decode step is at most this far from the model


class Serving(msgspec.Struct):
    """Inference on one device, at a batch and a context; `largest` is what memory allows."""

    batch: int
    context: int
    ms_per_token: float | None  # between two tokens of one sequence
    tokens_per_s: float | None  # of all sequences
    bound: str | None  # memory | compute | host
    prefill_s: float | None  # of one sequence
    largest_batch: int | None
    tokens_per_s_largest: float | None = None
    usd_per_million_tokens: float | None = None  # at the largest batch


@dataclass(frozen=True)
class Model:
    """What a token costs: the decoder, its weights, and how well the run's own device did."""

    shape: Shape
    parameters: int
    weight_bytes: float
    launches: int  # kernels of a step
    kept: float = 1.0  # measured device time over the model's on the run's own device
    host_s: float = 0.0  # the host's work of a step, as it showed beside that device

    def token_s(self, device: Accelerator, batch: int, context: int) -> tuple[float, str] | None:
        """Time of a decode step and what bounds it; None where the device's figures are missing."""
        target = curves.target(device, self.shape.dtype or "fp16")
        if target is None:
            return None
        model = curves.parameters()
        moved = self.weight_bytes + batch * context * self.shape.kv_bytes
        memory = moved / (target.bytes_per_s * STREAMING)
        flops = batch * (2.0 * self.parameters + self._attention_flops(context))
        compute = flops / curves.sustained(target, model)
        busy = float((memory**3 + compute**3) ** (1.0 / 3.0))
        busy += self.launches * KERNEL_S
        device_s = busy * self.kept
        if self.host_s > device_s:
            return join(device_s, self.host_s), "host"
        return join(device_s, self.host_s), "memory" if memory >= compute else "compute"

    def prefill_s(self, device: Accelerator, context: int) -> float | None:
        target = curves.target(device, self.shape.dtype or "fp16")
        if target is None:
            return None
        flops = context * (2.0 * self.parameters + self._attention_flops(context) / 2.0)
        weights_s = self.weight_bytes / (target.bytes_per_s * STREAMING)
        rate = curves.sustained(target, curves.parameters())
        return float(max(flops / rate, weights_s))

    def _attention_flops(self, context: int) -> float:
        """Of one token against a context: two products of heads x head size."""
        return 4.0 * self.shape.layers * self.shape.heads * self.shape.head_size * context

    def largest_batch(self, device: Accelerator, context: int) -> int | None:
        """Sequences of that context beside the weights; 0: not even one."""
        if device.memory_bytes is None:
            return None
        left = device.memory_bytes * USABLE - CONTEXT_BYTES - self.weight_bytes
        return max(0, int(left / (context * self.shape.kv_bytes)))

    def serving(
        self, device: Accelerator, batch: int, context: int, usd_per_hour: float | None
    ) -> Serving:
        """All of it on one device."""
        step, largest = self.token_s(device, batch, context), self.largest_batch(device, context)
        fits = largest is None or largest >= batch
        made = Serving(
            batch, context, step[0] * 1e3 if step and fits else None,
            batch / step[0] if step and fits else None, step[1] if step and fits else None,
            self.prefill_s(device, context), largest,
        )  # fmt: skip
        full = self.token_s(device, largest, context) if largest else None
        if full and largest:
            made.tokens_per_s_largest = largest / full[0]
            if usd_per_hour is not None:
                made.usd_per_million_tokens = usd_per_hour / 3600 / made.tokens_per_s_largest * 1e6
        return made


def model(basis: Basis) -> Model | None:
    """The language model of an inference run; None where it is none, or not known well enough."""
    found = basis.attention
    if found is None or basis.trains or not basis.parameters:
        return None
    weights = float(basis.parameter_bytes or basis.parameters * found.element_bytes)
    launches = sum(op.calls for op in basis.operators if op.kind != "view")
    return _calibrated(Model(found, basis.parameters, weights, launches), basis)


def _calibrated(made: Model, basis: Basis) -> Model:
    """Keeps what was measured of a decode step on a known device: its efficiency, and the host's
    work, which shows where a device is faster than the launches."""
    if basis.source is None or not basis.step_s or not made.shape.decodes:
        return made
    here = made.token_s(basis.source, made.shape.batch, made.shape.context)
    device_s = basis.seconds("compute", "memory")
    if here is None or not device_s:
        return made
    kept = min(OFF[1], max(OFF[0], device_s / here[0]))
    shown = device_s + basis.seconds("host")
    return replace(made, kept=kept, host_s=beside(shown, device_s))


def mfu(operators: Sequence[Operator], step_s: float, device: Accelerator) -> float | None:
    """FLOPs of the step's matrix work over the dense peaks of their precisions, 0..1."""
    ideal_s = 0.0
    for op in operators:
        if op.kind in ("gemm", "conv", "grouped", "attention") and op.flops:
            runs = curves.usable_precision(device, op.dtype or "fp32")
            if runs is None:
                return None
            ideal_s += op.flops / device.flops[runs]
    return ideal_s / step_s if ideal_s and step_s else None
