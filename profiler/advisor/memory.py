"""What a run holds in device memory, and the largest batch that another accelerator takes."""

from __future__ import annotations

from dataclasses import dataclass

from .basis import Basis
from .operators import Operator

CONTEXT_BYTES = 800 << 20  # CUDA context, kernels, cuDNN and allocator slack: 0.5-1 GiB
USABLE = 0.94  # of the printed capacity: ECC, driver, fragmentation
# Further bytes a parameter that an optimizer keeps, fp32. SGD: with momentum.
STATE_BYTES = {
    "adam": 8, "adamw": 8, "nadam": 8, "radam": 8, "lamb": 8, "adamax": 8, "sgd": 4,
    "rmsprop": 4, "lion": 4, "adagrad": 4, "adadelta": 8, "adafactor": 1, "adam8bit": 2,
    "adamw8bit": 2,
}  # fmt: skip
ESTIMATE_OFF = 0.3  # how far an estimate of the activations may be off


@dataclass(frozen=True)
class Need:
    """Bytes a device holds at the run's batch."""

    fixed_bytes: float  # parameters, gradients, optimizer state, context
    activation_bytes: float
    measured: bool  # from the device's peak, else estimated from the operators

    @property
    def total_bytes(self) -> float:
        return self.fixed_bytes + self.activation_bytes

    def fits(self, memory_bytes: int | None) -> bool | None:
        """None: too close to tell, or unknown."""
        if memory_bytes is None:
            return None
        room = memory_bytes * USABLE
        if self.measured:
            return self.total_bytes <= room
        off = ESTIMATE_OFF * self.activation_bytes
        if self.total_bytes + off <= room:
            return True
        return False if self.total_bytes - off > room else None

    def largest_batch(self, batch: int | None, memory_bytes: int | None) -> int | None:
        """By the activations a sample; on the careful side when they are an estimate."""
        if not batch or memory_bytes is None or self.activation_bytes <= 0:
            return None
        each = self.activation_bytes / batch * (1.0 if self.measured else 1.0 + ESTIMATE_OFF)
        return max(0, int((memory_bytes * USABLE - self.fixed_bytes) / each))


def need(basis: Basis) -> Need | None:
    """None when the run does not tell its parameters or its activations."""
    if not basis.parameters:
        return None
    weights = float(basis.parameter_bytes or basis.parameters * 4)
    fixed = weights + CONTEXT_BYTES
    if basis.trains:
        fixed += weights + basis.parameters * _state_bytes(basis.optimizer)
    if not basis.on_cpu and basis.device_peak_bytes:
        peak = float(basis.device_peak_bytes)
        return Need(min(fixed, 0.95 * peak), max(0.05 * peak, peak - fixed), True)
    if not basis.operators:
        return None
    kept = [op for op in basis.operators if op.phase in ("", "forward")]
    written = [_written(op) for op in kept]
    live = sum(written) if basis.trains else 3.0 * max(
        (w / op.calls for w, op in zip(written, kept, strict=True)), default=0.0
    )  # fmt: skip
    return Need(fixed, live, False)


def _state_bytes(optimizer: str | None) -> int:
    return STATE_BYTES.get((optimizer or "adam").lower(), 8)


def _written(op: Operator) -> float:
    """Bytes that the forward pass keeps of an operator's result."""
    if op.kind == "view" or op.name.endswith("_"):
        return 0.0
    if op.outputs:
        return op.outputs * op.calls * op.size
    return (op.bytes or 0.0) / 2.0
