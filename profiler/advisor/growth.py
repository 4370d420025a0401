"""What a larger batch brings: samples a second of the same step at another batch.

The batch grows what forward and backward pass do, and with it what a product fills of the device;
weights are read as before, and the optimizer, the host's launches, the exchange of gradients and
what is saved or logged stay as they are. Input and copies grow with the batch.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from ..accelerators.catalogue import Accelerator
from .basis import Basis
from .operators import Operator
from .projection import Projected, device_s, together_s
from .transfer import beside, join

GROWING = ("input", "transfer")


def samples_per_s(
    basis: Basis,
    device: Accelerator,
    projected: Projected,
    batch: int,
    *,
    count: int,
    precision: str | None,
) -> float | None:
    """Of all devices at that batch a device; None where the run's own batch is not known."""
    if not basis.batch:
        return None
    growth = batch / basis.batch
    part = _device_growth(basis, device, growth, precision)
    if part is None:
        return None
    was = projected.parts_s
    parts = was | {name: was[name] * growth for name in GROWING}
    parts["device"] *= projected.update_share + (1.0 - projected.update_share) * part
    host_s = beside(was["device"] + was["host"], was["device"])
    parts["host"] = max(0.0, join(parts["device"], host_s) - parts["device"])
    grown = replace(
        basis, step_s=(basis.step_s or 0.0) * growth, loader_s=(basis.loader_s or 0.0) * growth
    )
    return batch * count / together_s(grown, parts, count)


def _device_growth(
    basis: Basis, device: Accelerator, growth: float, precision: str | None
) -> float | None:
    """Time of forward and backward pass over that of the run's batch. The backward pass's products
    are the forward pass's in another order, and grow as they do."""
    forward = [
        msgspec.structs.replace(op, time_s=None)
        for op in basis.operators if op.phase not in ("backward", "optimizer")
    ]  # fmt: skip
    before = device_s(basis, forward, device, precision)
    after = device_s(basis, [grown(op, growth) for op in forward], device, precision)
    return after / before if before and after else None


def grown(op: Operator, growth: float) -> Operator:
    """A forward operator at `growth` times the batch."""
    if op.flops is None or op.bytes is None:
        return op
    weights = min(op.bytes, op.weights * op.size * op.calls)
    columns = op.weights / op.depth if op.kind == "gemm" and op.weights else 0.0
    rows = op.outputs / columns if columns else 0.0
    return msgspec.structs.replace(
        op, flops=op.flops * growth, outputs=op.outputs * growth,
        bytes=weights + (op.bytes - weights) * growth,
        width=min(rows * growth, columns) if rows else op.width,
    )  # fmt: skip
