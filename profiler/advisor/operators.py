"""An operator row as the projection sees it: its work, its class and how far it fills a device."""

from __future__ import annotations

import json
import math
from typing import Any, Literal

import msgspec

Kind = Literal["gemm", "conv", "grouped", "depthwise", "attention", "norm", "stream", "view"]
CONVOLUTIONS = ("conv", "grouped", "depthwise")
STREAMS = ("norm", "stream")  # what goes through the memory once or twice and does no products

_DTYPES = {
    "float": "fp32", "double": "fp64", "c10::Half": "fp16", "at::Half": "fp16",
    "c10::BFloat16": "bf16", "signed char": "int8", "char": "int8",
    "c10::Float8_e4m3fn": "fp8", "c10::Float8_e5m2": "fp8",
}  # fmt: skip
LARGE = 1e12  # a size that is not known: nothing is lost to it
SIZES = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "int8": 1, "fp8": 1}


class Operator(msgspec.Struct):
    """One operator and shape of a step; flops, bytes and time_s are sums over its calls."""

    name: str
    kind: Kind
    dtype: str | None
    calls: int
    flops: float | None
    bytes: float | None
    outputs: float = LARGE  # elements that one call writes: how many tiles there are to share out
    depth: float = LARGE  # length of the inner product of a matrix product
    width: float = LARGE  # the narrower side of the output matrix (channels of one group)
    taps: float = 1.0  # positions of a convolution's kernel
    weights: float = 0.0  # elements of a forward product's second operand, which no batch changes
    time_s: float | None = None  # measured on the source device
    phase: str = ""  # forward | backward | optimizer

    @classmethod
    def of(
        cls,
        name: str,
        shapes: str,
        dtype: str | None,
        *,
        calls: int,
        flops: float | None,
        bytes: float | None,
        time_s: float | None = None,
        phase: str = "",
    ) -> Operator:
        """From an `op` row: `shapes` is JSON, `dtype` accelprof's or the profiler's name."""
        precision = _DTYPES.get(dtype or "", dtype)
        made = cls(name, "stream", precision, calls, flops, bytes, time_s=time_s, phase=phase)
        _classify(made, _dims(shapes))
        return made

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return SIZES.get(self.dtype or "fp32", 4)

    @property
    def kernels(self) -> float:
        """Kernels of one call: a convolution's gradients by input and by weight are two."""
        return 2.0 if self.kind in CONVOLUTIONS and "backward" in self.name else 1.0


def _dims(shapes: str) -> list[Any]:
    try:
        dims = json.loads(shapes or "[]")
    except ValueError:
        return []
    return dims if isinstance(dims, list) else []


def _shape(dims: list[Any], index: int) -> list[int]:
    if index >= len(dims) or not isinstance(dims[index], list):
        return []
    found = dims[index]
    return found if all(isinstance(d, int) for d in found) else []


def _classify(op: Operator, dims: list[Any]) -> None:
    name = op.name.removeprefix("aten::")
    if op.flops == 0 and op.bytes == 0:
        op.kind = "view"
    elif "attention" in name:
        op.kind = "attention"
        q = _shape(dims, 1 if name.endswith("backward") else 0)
        op.outputs, op.depth, op.width = float(math.prod(q)) if q else LARGE, 128.0, 128.0
    elif "convolution" in name or name.startswith(("conv", "cudnn_conv")):
        _convolution(op, name, dims)
    elif "norm" in name or "softmax" in name:
        op.kind = "norm"
    elif op.flops and ("mm" in name or name in ("linear", "matmul", "mv", "addmv", "dot")):
        _product(op, name, dims)


def _product(op: Operator, name: str, dims: list[Any]) -> None:
    op.kind = "gemm"
    first = 1 if name.startswith(("addmm", "baddbmm", "_addmm", "addmv", "addbmm")) else 0
    a, b = _shape(dims, first), _shape(dims, first + 1)
    if not a or not b:
        return
    m = a[-2] if len(a) > 1 else 1
    n = b[-1] if len(b) > 1 else 1
    if name == "linear":
        m, n = math.prod(a[:-1]), b[0]
    op.depth, op.width = float(a[-1]), float(min(m, n))
    op.weights = float(a[-1] * n) if len(b) == 2 else 0.0
    if op.flops:
        op.outputs = op.flops / max(1, op.calls) / (2.0 * max(1.0, op.depth))


def _convolution(op: Operator, name: str, dims: list[Any]) -> None:
    op.kind = "conv"
    backward = name.endswith("backward")
    x, w = _shape(dims, 1 if backward else 0), _shape(dims, 2 if backward else 1)
    if len(w) < 3 or len(x) < 3:
        return
    op.depth = float(math.prod(w[1:]))
    groups = max(1, x[1] // max(1, w[1]))
    op.width = float(min(w[0] // groups, w[1]))
    op.taps = float(math.prod(w[2:]))
    op.weights = float(math.prod(w))
    if groups > 1:
        op.kind = "grouped" if op.width > 1.0 else "depthwise"
    if op.flops:
        op.outputs = op.flops / max(1, op.calls) / (2.0 * max(1.0, op.depth))
