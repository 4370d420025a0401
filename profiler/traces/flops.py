"""FLOPs and bytes of one operator call, from its name, input shapes, dtypes and scalar arguments.

Bytes are what the operator has to move at least: its inputs once and its outputs once, outputs
inferred. What is not in the tables is `None` (unknown), never 0. An operator with `always` does
its arithmetic itself even when it calls others (addmm copies its bias); any other counts only
when nothing below it in the call tree counted, so linear and addmm are never both counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .calls import Call, Dims, Work, broadcast, input_bytes
from .operators import ELEMENT, FUSED, MOVES, REDUCE, ROWS, VIEWS

# --- matrix products -----------------------------------------------------------------------


def _matrix(call: Call, first: int) -> Work | None:
    """A product of argument `first` [.., m, k] with the next one [.., k, n]."""
    a, b = call.shape(first), call.shape(first + 1)
    if not a or not b:
        return None
    size = call.size(first)
    batch = math.prod(broadcast([a[:-2], b[:-2]]))
    m = a[-2] if len(a) > 1 else 1
    k = a[-1]
    n = b[-1] if len(b) > 1 else 1
    out = batch * m * n
    return Work(2.0 * out * k, input_bytes(call) + out * size, "gemm", True)


def _linear(call: Call) -> Work | None:
    x, w = call.shape(0), call.shape(1)
    if not x or not w or len(w) != 2:
        return None
    out = math.prod(x[:-1]) * w[0]
    return Work(2.0 * out * w[1], input_bytes(call) + out * call.size(0))


def _wrapped_matmul(call: Call) -> Work | None:
    work = _matrix(call, 0)
    return Work(work.flops, work.bytes) if work else None


# --- convolutions --------------------------------------------------------------------------

# name -> positions of (stride, padding, dilation, transposed)
_CONV: dict[str, tuple[int | None, int | None, int | None, int | None]] = {
    "convolution": (3, 4, 5, 6), "_convolution": (3, 4, 5, 6),
    "conv1d": (3, 4, 5, None), "conv2d": (3, 4, 5, None), "conv3d": (3, 4, 5, None),
    "mkldnn_convolution": (4, 3, 5, None), "cudnn_convolution": (3, 2, 4, None),
    "miopen_convolution": (4, 3, 5, None), "miopen_depthwise_convolution": (4, 3, 5, None),
    "_slow_conv2d_forward": (4, 5, None, None), "thnn_conv2d": (4, 5, None, None),
    "slow_conv3d_forward": (4, 5, None, None), "_conv_depthwise2d": (4, 5, 6, None),
    "cudnn_convolution_relu": (3, 4, 5, None),
}  # fmt: skip
_CONV_KERNELS = {n for n in _CONV if n not in {"convolution", "_convolution", "thnn_conv2d"}} - {
    "conv1d", "conv2d", "conv3d",
}  # fmt: skip


def _spread(values: list[int] | None, count: int, default: int) -> list[int]:
    if not values:
        return [default] * count
    return values if len(values) == count else values[:1] * count


def _convolution(call: Call) -> Work | None:
    x, w = call.shape(0), call.shape(1)
    if not x or not w or len(w) < 3 or len(x) not in (len(w), len(w) - 1):
        return None
    stride_at, padding_at, dilation_at, transposed_at = _CONV[call.name]
    if not any(call.concrete):  # older traces tell no strides: the output's size is unknown
        return Work(None, None, "gemm", True)
    space = len(w) - 2
    stride = _spread(call.ints(stride_at) if stride_at is not None else None, space, 1)
    padding = _spread(call.ints(padding_at) if padding_at is not None else None, space, 0)
    dilation = _spread(call.ints(dilation_at) if dilation_at is not None else None, space, 1)
    always, size = call.name in _CONV_KERNELS, call.size(0)
    if transposed_at is not None and call.literal(transposed_at) is True:
        flops = 2.0 * math.prod(x) * math.prod(w[1:])
        out = math.prod(x) // x[-space - 1] * w[1] * math.prod(stride)
        return Work(flops, input_bytes(call) + out * size, "gemm", always)
    out = w[0] * (math.prod(x[: -space - 1]))
    for i in range(space):
        reach = dilation[i] * (w[2 + i] - 1) + 1
        out *= max(0, (x[len(x) - space + i] + 2 * padding[i] - reach) // max(1, stride[i]) + 1)
    return Work(2.0 * out * math.prod(w[1:]), input_bytes(call) + out * size, "gemm", always)


def _convolution_backward(call: Call) -> Work | None:
    grad, x, w = call.shape(0), call.shape(1), call.shape(2)
    if not grad or not x or not w:
        return None
    transposed = call.literal(7) is True
    one = 2.0 * math.prod(x if transposed else grad) * math.prod(w[1:])
    mask = call.literal(10)
    mask = mask if isinstance(mask, list) and len(mask) == 3 else [True, True, True]
    written = (math.prod(x) if mask[0] else 0) + (math.prod(w) if mask[1] else 0)
    parts = int(mask[0]) + int(mask[1])
    return Work(one * parts, input_bytes(call) + written * call.size(0), "gemm", True)


# --- attention, recurrent layers -----------------------------------------------------------


def _attention(call: Call, at: int, factor: float) -> Work | None:
    q, k = call.shape(at), call.shape(at + 1)
    if not q or not k or len(q) < 3 or len(k) < 3:
        return None
    # [.., heads, length, width] and [.., length, heads, width] have the same products
    keys = k[-2] if q[-3] == k[-3] else k[-3]
    one = 2.0 * math.prod(q) * keys
    written = math.prod(q) + (2 * math.prod(k) if at else 0)
    return Work(one * factor, input_bytes(call) + written * call.size(at))


def _rnn_layer(call: Call, factor: float) -> Work | None:
    x, w_input, w_hidden = call.shape(0), call.shape(1), call.shape(2)
    if not x or not w_input or not w_hidden or len(x) != 3:
        return None
    steps = x[0] * x[1]
    flops = 2.0 * steps * (math.prod(w_input) + math.prod(w_hidden))
    out = steps * w_hidden[-1]
    return Work(flops * factor, input_bytes(call) + out * call.size(0), "gemm", True)


# --- one pass over the elements ------------------------------------------------------------


def _elementwise(call: Call, base: str, in_place: bool) -> Work | None:
    flops, kind = ELEMENT[base]
    tensors = call.tensors()
    if not tensors:
        return None
    shape = broadcast([s for s, _ in tensors])
    count = math.prod(shape)
    written = tensors[0][1] * (math.prod(tensors[0][0]) if in_place else count)
    read = input_bytes(call)
    if kind == "rand" and in_place:
        read -= written  # overwritten, not read
    return Work(flops * count, read + written, kind)


def _reduction(call: Call, base: str) -> Work | None:
    shape = call.shape(0)
    if shape is None:
        return None
    dims = call.ints(1)
    kept = math.prod(shape)
    if dims:
        for dim in dims:
            if -len(shape) <= dim < len(shape) and shape[dim]:
                kept //= shape[dim]
    else:
        kept = 1
    return Work(
        float(REDUCE[base]) * math.prod(shape), input_bytes(call) + kept * call.size(0), "add"
    )


def _rows(call: Call) -> Work | None:
    flops, kind, written = ROWS[call.name]
    shape = call.shape(0)
    if shape is None:
        return None
    count = math.prod(shape)
    return Work(flops * count, input_bytes(call) + written * count * call.size(0), kind)


# Of a list of tensors the shapes are told, not the precision
LISTED_BYTES = 4


def _move(call: Call) -> Work:
    """Data movement: no arithmetic; bytes are None where the output cannot be inferred."""
    name, tensors = call.name, call.tensors()
    sizes = [math.prod(s) * b for s, b in tensors]
    if name in ("copy_", "fill_", "zero_") and sizes:
        return Work(0.0, float(sum(sizes) if name == "copy_" else sizes[0]), "move")
    if name in ("embedding", "index_select") and len(tensors) >= 2 and tensors[0][0]:
        table, index = tensors[0], tensors[1]
        picked = math.prod(index[0]) * math.prod(table[0]) // max(1, table[0][0]) * table[1]
        return Work(0.0, 2.0 * picked + sizes[1], "move")
    if name == "embedding_dense_backward" and len(tensors) >= 2:
        rows = call.ints(2)
        if rows and tensors[0][0]:
            return Work(0.0, float(sizes[0] + sizes[1] + rows[0] * tensors[0][0][-1] * 4), "move")
    if name in ("cat", "stack") and (counts := call.listed(0)):
        return Work(0.0, 2.0 * sum(counts) * LISTED_BYTES, "move")
    if name in ("gather", "tril", "triu", "flip", "roll") and sizes:
        return Work(0.0, float(sum(sizes) + sizes[-1]), "move")
    return Work(0.0, None, "move")


def _pool(call: Call) -> Work | None:
    """Pooling reads its input once; the output is at most as large, taken as a quarter."""
    tensors = call.tensors()
    if not tensors:
        return None
    largest = max(math.prod(s) for s, _ in tensors)
    window = call.ints(1) or [2, 2]
    flops = largest * (math.prod(window) if "adaptive" not in call.name else 1)
    return Work(float(flops), input_bytes(call) * 1.25, "add")


# --- optimizers over lists of tensors --------------------------------------------------------


def _fused(call: Call, parameters: int | None) -> Work:
    flops, moved = FUSED[call.name]
    if parameters is None:
        return Work(None, None, "add")
    return Work(float(flops * parameters), float(moved * parameters), "add")


def _old_convolution_backward(call: Call, grad_at: int, parts: int) -> Work | None:
    """Before torch 1.11 each library had its own; the weight is the other 4-d tensor."""
    grad = call.shape(grad_at)
    weight = call.shape(2) if call.shape(2) else None
    if not grad or not weight:
        return None
    flops = 2.0 * math.prod(grad) * math.prod(weight[1:]) * parts
    return Work(flops, input_bytes(call) * 2.0, "gemm", True)


def _triton(call: Call) -> Work | None:
    """A kernel that torch.compile made: its arguments are the tensors it reads and writes.

    Its name lists what was fused. Templates (a matrix product with an epilogue) are not told.
    """
    tensors = call.tensors()
    if not call.name.startswith(("triton_poi_", "triton_red_", "triton_per_")) or not tensors:
        return None
    elements = max(math.prod(shape) for shape, _ in tensors)
    operators = max(1, len(call.name.split("_fused_")[-1].split("_")) - 1)
    return Work(float(elements * operators), float(input_bytes(call)), "add")


_FORMULAS: dict[str, Callable[[Call], Work | None]] = {
    "mm": lambda c: _matrix(c, 0), "bmm": lambda c: _matrix(c, 0), "mv": lambda c: _matrix(c, 0),
    "dot": lambda c: _matrix(c, 0), "addmm": lambda c: _matrix(c, 1),
    "addmm_": lambda c: _matrix(c, 1), "addbmm": lambda c: _matrix(c, 1),
    "_addmm_activation": lambda c: _matrix(c, 1), "baddbmm": lambda c: _matrix(c, 1),
    "baddbmm_": lambda c: _matrix(c, 1), "addmv": lambda c: _matrix(c, 1),
    "_scaled_mm": lambda c: _matrix(c, 0), "_int_mm": lambda c: _matrix(c, 0),
    "linear": _linear, "mkldnn_linear": _linear, "matmul": _wrapped_matmul,
    "convolution_backward": _convolution_backward,
    "cudnn_convolution_backward": lambda c: _old_convolution_backward(c, 1, 2),
    "cudnn_convolution_backward_input": lambda c: _old_convolution_backward(c, 1, 1),
    "miopen_convolution_backward": lambda c: _old_convolution_backward(c, 1, 2),
    "mkldnn_rnn_layer": lambda c: _rnn_layer(c, 1),
    "mkldnn_rnn_layer_backward": lambda c: _rnn_layer(c, 2),
}  # fmt: skip


def work(
    name: str, dims: Dims, types: Sequence[str], concrete: Sequence[str], parameters: int | None
) -> Work | None:
    """FLOPs and bytes of one call, or None when the operator is not in the tables.

    `parameters` is the number of parameters the job's optimizers hold: list-of-tensor optimizer
    operators tell no shapes.
    """
    call = Call(name.removeprefix("aten::"), dims, types, concrete)
    short = call.name
    if short in _FORMULAS:
        return _FORMULAS[short](call)
    if short in _CONV:
        return _convolution(call)
    if short in VIEWS:
        return Work(0.0, 0.0, "view")
    if short in FUSED:
        return _fused(call, parameters)
    if short.startswith("triton_"):
        return _triton(call)
    return _attention_work(call) or _element_work(call, parameters)


def is_pass(short: str) -> bool:
    """Whether an operator ("add_", without "aten::") goes over its elements once or a few times."""
    base = short.removeprefix("_foreach_").rstrip("_")
    return any(short in names or base in names for names in (FUSED, MOVES, ROWS, ELEMENT, REDUCE))


def is_product(short: str) -> bool:
    """Whether an operator is a matrix product, a convolution or a recurrent layer."""
    return short in _FORMULAS or short in _CONV


def _attention_work(call: Call) -> Work | None:
    name = call.name
    if "attention" not in name:
        return None
    if not name.startswith(("_scaled_dot_product", "scaled_dot", "_flash", "_efficient")):
        return None
    return _attention(call, 1, 5) if name.endswith("backward") else _attention(call, 0, 2)


def _element_work(call: Call, parameters: int | None) -> Work | None:
    short = call.name
    if short.startswith("_foreach_"):
        return _foreach(short, parameters)
    for wanted, formula in ((short in MOVES, _move), (short in ROWS, _rows),
                            ("pool" in short, _pool)):  # fmt: skip
        if wanted:
            return formula(call)
    base = short.rstrip("_")
    if base in REDUCE and (base not in ELEMENT or call.shape(1) is None):
        return _reduction(call, base)
    return _elementwise(call, base, short.endswith("_")) if base in ELEMENT else None


def _foreach(short: str, parameters: int | None) -> Work | None:
    """One pass of an optimizer over all its parameters."""
    base = short.removeprefix("_foreach_").rstrip("_")
    if base not in ELEMENT or parameters is None:
        return None
    flops, kind = ELEMENT[base]
    tensors = 3 if base in ("addcmul", "addcdiv", "lerp") else 2
    return Work(flops * parameters, 4.0 * parameters * (tensors + 1), kind)
