"""What a run holds in device memory, part by part; the largest batch that fits; what would free.

parameters, gradients    from the hooks' facts (bytes as they are)
optimizer                measured after its first step, else by the optimizer's kind
activations              from the captured forward pass (traces/saved.py): grows with the batch
framework                context, kernels, library workspaces
fragmentation            what is left of a measured peak
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from ..traces.saved import Activations
from .basis import Basis
from .operators import CONVOLUTIONS, LARGE, Operator

CONTEXT_BYTES = 800 << 20  # CUDA context, kernels, cuDNN and allocator slack: 0.5-1 GiB
USABLE = 0.94  # of the printed capacity: ECC, driver, fragmentation
# Further bytes a parameter that an optimizer keeps, fp32. SGD: with momentum.
STATE_BYTES = {
    "adam": 8, "adamw": 8, "nadam": 8, "radam": 8, "lamb": 8, "adamax": 8, "sgd": 4,
    "rmsprop": 4, "lion": 4, "adagrad": 4, "adadelta": 8, "adafactor": 1, "adam8bit": 2,
    "adamw8bit": 2,
}  # fmt: skip
ESTIMATE_OFF = 0.3  # how far an estimate of the activations from sizes alone may be off
WALK_OFF = 0.05  # and one from the captured forward pass, see tests/advisor/test_memory.py
MOST_GROWTH = 1 << 20
PRODUCTS = (
    4  # of a block that is checkpointed: three convolutions of a ResNet's, six of a decoder's
)


@dataclass(frozen=True)
class Need:
    """Bytes a device holds at the run's batch."""

    parameter_bytes: float
    gradient_bytes: float
    optimizer_bytes: float
    step_bytes: float  # that the optimizer's step takes for itself
    activations: Activations
    framework_bytes: float
    fragmentation_bytes: float  # of a measured peak; 0 where none was measured
    method: str  # measured-peak | captured-forward | operator-sizes
    trains: bool = True

    @property
    def off(self) -> float:
        """How far the activations may be off, relative."""
        return {"measured-peak": 0.0, "captured-forward": WALK_OFF}.get(self.method, ESTIMATE_OFF)

    @property
    def total_bytes(self) -> float:
        return self.at(1.0)

    def at(self, growth: float, off: float = 0.0) -> float:
        """Peak at `growth` times the batch, with activations `off` larger than expected."""
        moving = self.activations.peak(growth * (1.0 + off))
        stepping = self.gradient_bytes + self.step_bytes
        fixed = self.parameter_bytes + self.optimizer_bytes + self.framework_bytes
        return fixed + self.fragmentation_bytes * max(1.0, growth) + max(moving, stepping)

    def fits(self, memory_bytes: int | None) -> bool | None:
        """None: too close to tell, or unknown."""
        if memory_bytes is None:
            return None
        room = memory_bytes * USABLE
        if self.at(1.0, self.off) <= room:
            return True
        return False if self.at(1.0, -self.off) > room else None

    def largest_batch(self, batch: int | None, memory_bytes: int | None) -> int | None:
        """The largest batch that fits for sure, by the activations' growth."""
        if not batch or memory_bytes is None or self.activations.saved_bytes <= 0:
            return None
        found = self.batch_within(batch, memory_bytes * USABLE, self.off)
        return found if found < MOST_GROWTH // 2 else None  # so small that memory is no limit

    def batch_within(self, batch: int, room_bytes: float, off: float = 0.0) -> int:
        """The largest batch whose peak stays within `room_bytes`; 0: none does."""
        low, high = 0, 1
        while high < MOST_GROWTH and self.at(high / batch, off) <= room_bytes:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            if self.at(middle / batch, off) <= room_bytes:
                low = middle
            else:
                high = middle
        return low


def need(basis: Basis) -> Need | None:
    """None when the run does not tell its parameters or its activations."""
    if not basis.parameters:
        return None
    weights = float(basis.parameter_bytes or basis.parameters * 4)
    gradients = float(basis.gradient_bytes or weights) if basis.trains else 0.0
    kept = _state(basis) if basis.trains else 0.0
    found = _activations(basis, gradients)
    peak = float(basis.device_peak_bytes or 0) if not basis.on_cpu else 0.0
    if found is None and not peak:
        return None
    made = Need(
        weights, gradients, kept, weights if basis.foreach and basis.trains else 0.0,
        found or Activations(0.0, [(0.0, gradients)]), CONTEXT_BYTES, 0.0,
        "captured-forward" if basis.activations and basis.trains else "operator-sizes",
        basis.trains,
    )  # fmt: skip
    return _against_peak(made, peak) if peak else made


def _against_peak(made: Need, peak: float) -> Need:
    """The parts of a peak that was measured: what the parts do not explain is fragmentation."""
    rest = peak - made.total_bytes
    if rest >= 0 and made.method == "captured-forward":
        return replace(made, fragmentation_bytes=rest, method="measured-peak")
    # More than was there, or activations only guessed: they are what the peak leaves for them.
    held = made.parameter_bytes + made.optimizer_bytes + made.gradient_bytes
    left = max(0.05 * peak, peak - held - CONTEXT_BYTES)
    return replace(
        made, activations=Activations(left, [(left, made.gradient_bytes)]), step_bytes=0.0,
        framework_bytes=min(CONTEXT_BYTES, max(0.0, peak - held - left)), method="measured-peak",
    )  # fmt: skip


def _state(basis: Basis) -> float:
    if basis.state_bytes is not None:
        return float(basis.state_bytes)
    each = STATE_BYTES.get((basis.optimizer or "adam").lower(), 8)
    return float(each * (basis.parameters or 0))


def _activations(basis: Basis, gradients: float) -> Activations | None:
    if basis.activations is not None and basis.trains:
        return basis.activations
    if not basis.operators:
        return None
    forward = [op for op in basis.operators if op.phase in ("", "forward")]
    written = [_written(op) for op in forward]
    live = sum(written) if basis.trains else 3.0 * max(
        (w / op.calls for w, op in zip(written, forward, strict=True)), default=0.0
    )  # fmt: skip
    return Activations(live, [(live, gradients)])


def _written(op: Operator) -> float:
    """Bytes that the forward pass keeps of an operator's result, at most."""
    if op.kind == "view" or op.name.endswith("_"):
        return 0.0
    if op.outputs < LARGE:
        return op.outputs * op.calls * op.size
    return (op.bytes or 0.0) / 2.0


# -- told --------------------------------------------------------------------------------------


def parts(made: Need, basis: Basis, count: int) -> dict[str, Any]:
    """The parts in bytes, and what would free how much of them."""
    return {
        "method": made.method, "total_bytes": int(made.total_bytes),
        "parameters_bytes": int(made.parameter_bytes), "gradients_bytes": int(made.gradient_bytes),
        "optimizer_bytes": int(made.optimizer_bytes),
        "activations_bytes": int(made.activations.saved_bytes),
        "framework_bytes": int(made.framework_bytes),
        "fragmentation_bytes": int(made.fragmentation_bytes),
        "would_free": savings(made, basis, count) if made.trains else [],
    }  # fmt: skip


def savings(made: Need, basis: Basis, count: int) -> list[dict[str, Any]]:
    """What is known to free memory, the most first: bytes freed of the peak, and its price."""
    saved, total = made.activations.saved_bytes, made.total_bytes
    found: list[tuple[str, Need, str]] = []
    layers = max(len(made.activations.points), _products(basis) // PRODUCTS, 4)
    left = min(1.0, 2.0 / math.sqrt(layers))
    found.append((
        "activation checkpointing", _scaled(made, left),
        "computes the forward pass twice: about a third more work a step",
    ))  # fmt: skip
    if basis.precision in ("fp32", "tf32") and saved:
        found.append((
            "bf16 autocast", _scaled(made, 0.5), "changes numerics: compare the loss",
        ))  # fmt: skip
    each = made.optimizer_bytes / basis.parameters if basis.parameters else 0.0
    if each >= 8:
        smaller = replace(made, optimizer_bytes=made.optimizer_bytes * 2.0 / each)
        found.append(("8-bit optimizer", smaller, "changes numerics slightly: compare the loss"))
    ranks = count if count > 1 else 8
    part = 1.0 / ranks
    two = replace(
        made, optimizer_bytes=made.optimizer_bytes * part,
        gradient_bytes=made.gradient_bytes * part,
        activations=Activations(saved, [(a, g * part) for a, g in made.activations.points]),
    )  # fmt: skip
    found.append((f"ZeRO stage 2 over {ranks} devices", two, "same exchange of gradients"))
    three = replace(
        two, parameter_bytes=two.parameter_bytes * part, step_bytes=two.step_bytes * part
    )
    found.append((f"ZeRO stage 3 over {ranks} devices", three, "half as much exchange again"))
    rows = [
        {"what": what, "bytes": int(total - after.total_bytes), "price": price}
        for what, after, price in found
    ]
    return sorted((r for r in rows if r["bytes"] > 0.01 * total), key=lambda r: -r["bytes"])  # type: ignore[operator]


def _products(basis: Basis) -> int:
    """Matrix products and convolutions of a forward pass."""
    kinds = ("gemm", "attention", *CONVOLUTIONS)
    passed = ("backward", "optimizer")
    return sum(o.calls for o in basis.operators if o.kind in kinds and o.phase not in passed)


def _scaled(made: Need, factor: float) -> Need:
    """With activations of `factor` times the size."""
    points = [(a * factor, g) for a, g in made.activations.points]
    return replace(made, activations=Activations(made.activations.saved_bytes * factor, points))
