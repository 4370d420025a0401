"""The operators of a model's step, from a dry run on the meta device: shapes only, no arithmetic.

Every size of a step is affine in the batch, so two dry runs at small batches give any batch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from accelprof.profiler.advisor.operators import Operator
from accelprof.profiler.traces.flops import work

DTYPE_NAMES = {
    torch.float32: "float", torch.float64: "double", torch.float16: "c10::Half",
    torch.bfloat16: "c10::BFloat16", torch.int64: "long int", torch.bool: "bool",
    torch.int32: "int", torch.uint8: "unsigned char", torch.int8: "signed char",
}  # fmt: skip
# Kernels of the framework that the dispatcher shows under another name.
ALIASES = {
    "cudnn_batch_norm": "native_batch_norm",
    "_native_batch_norm_legit": "native_batch_norm",
    "_native_batch_norm_legit_no_training": "native_batch_norm",
    "_batch_norm_with_update": "native_batch_norm",
    "_safe_softmax": "_softmax",
}
SDPA = torch.nn.functional.scaled_dot_product_attention
BATCHES = (2, 4)

Call = tuple[str, list[Any], list[str], list[str], list[Any]]
Step = Callable[[int], None]  # runs one step at that batch


class Recorder(TorchDispatchMode):
    """Lists every operator below autograd: name, shapes, types, scalars, shapes written."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        dims: list[Any] = []
        kinds: list[str] = []
        scalars: list[str] = []
        for arg in args:
            dims.append(_dims(arg))
            kinds.append(DTYPE_NAMES.get(arg.dtype, "") if isinstance(arg, torch.Tensor) else "")
            scalars.append("" if isinstance(arg, torch.Tensor) else str(arg))
        written = [out] if isinstance(out, torch.Tensor) else out
        self.calls.append((ALIASES.get(name, name), dims, kinds, scalars, _dims(written)))
        return out


class Attention(TorchFunctionMode):
    """Attention as the framework of the row ran it: one fused kernel, or its separate products.

    The meta device alone would fall back to products in fp32, which no accelerator does.
    """

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is not SDPA:
            return func(*args, **(kwargs or {}))
        return self._attend(*args, **(kwargs or {}))

    def _attend(
        self, query: Any, key: Any, value: Any, attn_mask: Any = None, *_: Any, **__: Any
    ) -> Any:
        if self.fused:
            attend = torch.ops.aten._scaled_dot_product_efficient_attention
            if attn_mask is not None and attn_mask.dim() < 4:
                attn_mask = attn_mask.expand(*query.shape[:-1], key.shape[-2])
            return attend(query, key, value, attn_mask, self._trains(query))[0]
        scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)
        if attn_mask is not None:
            scores = scores + attn_mask
        return scores.softmax(-1) @ value

    @staticmethod
    def _trains(query: Any) -> bool:
        return bool(query.requires_grad)


def _dims(arg: Any) -> list[Any]:
    if isinstance(arg, torch.Tensor):
        return list(arg.shape)
    if isinstance(arg, list | tuple) and arg and isinstance(arg[0], torch.Tensor):
        return [list(t.shape) for t in arg if isinstance(t, torch.Tensor)]
    return []


def _record(step: Step, batch: int, fused: bool) -> list[Call]:
    recorder = Recorder()
    with recorder, Attention(fused):
        step(batch)
    return recorder.calls


def _affine(low: Any, high: Any, batch: int) -> Any:
    """Every integer of two equal structures, carried on to `batch`."""
    if isinstance(low, list):
        return [_affine(a, b, batch) for a, b in zip(low, high, strict=True)]
    first, second = BATCHES
    slope = (high - low) // (second - first)
    return low + slope * (batch - first)


def _copied(name: str, dims: list[Any], written: list[Any], size: int) -> float:
    """Bytes of an operator that only moves data: what it reads and what it writes, once each."""
    if name in ("index", "embedding", "gather"):
        return 2.0 * size * _count(written)
    return float(size * (_count(dims) + _count(written)))


def _count(dims: list[Any]) -> int:
    if dims and all(isinstance(d, int) for d in dims):
        return math.prod(dims)
    return sum(_count(d) for d in dims if isinstance(d, list))


class DryRun:
    """Two recordings of a step; `operators(batch)` gives the step at any batch."""

    def __init__(self, step: Step, fused_attention: bool = True) -> None:
        first, second = (_record(step, b, fused_attention) for b in BATCHES)
        if [c[0] for c in first] != [c[0] for c in second]:
            raise ValueError("the operators of the step change with the batch")
        self.pairs = list(zip(first, second, strict=True))

    def operators(self, batch: int) -> list[Operator]:
        sums: dict[tuple[str, str, str | None], Operator] = {}
        for (name, low, types, scalars, out_low), (_, high, _, _, out_high) in self.pairs:
            dims = _affine(low, high, batch)
            done = work(name, dims, types, scalars, None)
            if done is None:
                continue
            dtype = next((t for t in types if t), None)
            made = Operator.of(
                name, json.dumps(dims), dtype, calls=1, flops=done.flops, bytes=done.bytes
            )
            if made.bytes is None:
                made.bytes = _copied(name, dims, _affine(out_low, out_high, batch), made.size)
            if made.kind == "view":
                continue
            key = (name, json.dumps(dims), dtype)
            held = sums.setdefault(key, made)
            if held is not made:
                held.calls += 1
                held.flops = (held.flops or 0.0) + (made.flops or 0.0)
                held.bytes = (held.bytes or 0.0) + made.bytes
        return list(sums.values())
