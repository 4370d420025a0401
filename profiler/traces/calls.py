"""One operator call as a trace tells it, and what it takes: FLOPs and bytes."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Dims = Sequence[Any]

DTYPES: dict[str, tuple[str, int]] = {
    "float": ("fp32", 4), "double": ("fp64", 8), "c10::BFloat16": ("bf16", 2),
    "c10::Half": ("fp16", 2), "at::Half": ("fp16", 2), "c10::Float8_e4m3fn": ("fp8", 1),
    "c10::Float8_e5m2": ("fp8", 1), "signed char": ("int8", 1), "unsigned char": ("uint8", 1),
    "char": ("int8", 1), "bool": ("bool", 1), "short": ("int16", 2), "int": ("int32", 4),
    "long": ("int64", 8), "long int": ("int64", 8), "long long": ("int64", 8),
    "c10::complex<float>": ("complex64", 8), "c10::complex<double>": ("complex128", 16),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Work:
    """`kind` names the ceiling: gemm, or the key of a measured rate for element-wise functions."""

    flops: float | None
    bytes: float | None
    kind: str = "gemm"
    always: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    name: str  # without "aten::"
    dims: Dims
    types: Sequence[str]
    concrete: Sequence[str]

    def shape(self, index: int) -> tuple[int, ...] | None:
        """The shape of a tensor argument; None when the argument is no tensor or is absent."""
        if index >= len(self.dims) or index >= len(self.types):
            return None
        if self.types[index] not in DTYPES:
            return None
        dims = self.dims[index]
        if not isinstance(dims, list | tuple) or any(not isinstance(d, int) for d in dims):
            return None
        return tuple(dims)

    def size(self, index: int) -> int:
        return DTYPES[self.types[index]][1]

    def tensors(self) -> list[tuple[tuple[int, ...], int]]:
        """(shape, bytes of an element) of every tensor argument."""
        found = []
        for index in range(len(self.dims)):
            shape = self.shape(index)
            if shape is not None:
                found.append((shape, self.size(index)))
        return found

    def listed(self, index: int) -> list[int]:
        """Elements of each tensor of a list argument; empty when it tells no shapes."""
        shapes = self.dims[index] if index < len(self.dims) else None
        if not isinstance(shapes, list | tuple):
            return []
        if not all(
            isinstance(s, list | tuple) and all(isinstance(d, int) for d in s) for s in shapes
        ):
            return []
        return [math.prod(s) for s in shapes]

    def ints(self, index: int) -> list[int] | None:
        """A list of integers among the scalar arguments, such as a stride."""
        value = self.literal(index)
        if isinstance(value, int) and not isinstance(value, bool):
            return [value]
        if isinstance(value, list) and all(isinstance(v, int) for v in value):
            return value
        return None

    def literal(self, index: int) -> Any:
        if index >= len(self.concrete) or not self.concrete[index]:
            return None
        try:
            return ast.literal_eval(self.concrete[index])
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None


def dtype_of(types: Sequence[str]) -> str | None:
    """The precision of the first tensor argument, in accelprof's names."""
    for name in types:
        if name in DTYPES:
            return DTYPES[name][0]
    return None


def broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    rank = max((len(s) for s in shapes), default=0)
    out = [1] * rank
    for shape in shapes:
        for i, length in enumerate(reversed(shape), 1):
            out[rank - i] = max(out[rank - i], length) if length and out[rank - i] else 0
    return tuple(out)


def input_bytes(call: Call) -> int:
    return sum(math.prod(shape) * size for shape, size in call.tensors())
