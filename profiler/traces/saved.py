"""What the forward pass of a captured training step keeps for the backward pass, in bytes.

A trace names operators and the shapes of their inputs, not tensors. So the forward operators are
walked in order, and a tensor is the latest one with that many elements of that size (views keep
both). What autograd saves of each operator is in the tables below, after torch's
derivatives.yaml: a tensor that two operators save counts once.

Backward runs the other way: while operator i is in it, what operators up to i saved is still
there, the gradients of the weights from i on are there already, and its own input and output
gradients on top. The largest of these sums, as pairs of a part that grows with the batch and a
part that does not, is what `Activations` keeps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from .kineto import Node, Window

EVENT = "activations"  # kind of the row of table `event` that keeps it

# Operators that save inputs: which ones.
INPUTS = {
    "convolution": (0,), "addmm": (1,), "mm": (0,), "bmm": (0, 1), "baddbmm": (1, 2),
    "native_batch_norm": (0,), "cudnn_batch_norm": (0,), "miopen_batch_norm": (0,),
    "native_layer_norm": (0,), "native_group_norm": (0,), "_fused_rms_norm": (0,),
    "gelu": (0,), "silu": (0,), "hardswish": (0,), "elu": (0,), "leaky_relu": (0,),
    "softplus": (0,),
    "max_pool2d_with_indices": (0,), "avg_pool2d": (0,), "_adaptive_avg_pool2d": (0,),
    "pow": (0,), "abs": (0,), "log": (0,), "sin": (0,), "cos": (0,), "embedding": (1,),
    "nll_loss_forward": (0, 1), "nll_loss2d_forward": (0, 1), "mse_loss": (0, 1),
    "upsample_bilinear2d": (), "index_select": (1,), "gather": (2,), "where": (0,),
}  # fmt: skip
# Operators that save their result, which is of their input's size.
RESULTS = {
    "relu", "sigmoid", "tanh", "_softmax", "_log_softmax", "exp", "sqrt", "rsqrt", "clamp_min",
}  # fmt: skip
# Operators that make a new tensor of their input's size and save nothing.
PASSING = {
    "add",
    "sub",
    "neg",
    "clone",
    "copy_",
    "_to_copy",
    "contiguous",
    "dropout",
    "div",
    "mean",
}
ATTENTION = ("_flash_attention", "_efficient_attention", "attention_math", "cudnn_attention",
             "flash_attention_for_cpu")  # fmt: skip
WEIGHTS = {
    "convolution": (1, 2), "addmm": (2, 0), "mm": (1,), "embedding": (0,),
    "native_batch_norm": (1, 2), "cudnn_batch_norm": (1, 2), "native_layer_norm": (2, 3),
    "native_group_norm": (1, 2),
}  # fmt: skip
MOST_POINTS = 24
SIZES = {
    "float": 4, "double": 8, "long int": 8, "int": 4, "bool": 1, "unsigned char": 1,
    "c10::Half": 2, "c10::BFloat16": 2, "at::Half": 2, "short": 2,
}  # fmt: skip


class Activations(msgspec.Struct):
    """Bytes on one device while a step of the captured batch runs."""

    saved_bytes: float  # of all activations, at the end of the forward pass
    points: list[tuple[float, float]]  # (grows with the batch, gradients) at the places that count

    def peak(self, growth: float = 1.0) -> float:
        """Most bytes beside parameters and optimizer state, at `growth` times the batch."""
        return max((a * growth + g for a, g in self.points), default=0.0)


class _Walk:
    """The forward operators in order: tensors by size, and what each place adds."""

    def __init__(self) -> None:
        self.latest: dict[tuple[int, int], list[int]] = {}  # (elements, bytes each): tensors
        self.count = 0
        self.kept: set[int] = set()
        self.trained = False  # a weight came before
        self.masks: set[int] = set()  # elements of random masks just drawn
        self.places: list[tuple[float, float, float]] = []  # saved, weights' gradients, in flight

    def make(self, key: tuple[int, int]) -> int:
        self.count += 1
        self.latest.setdefault(key, []).append(self.count)
        return self.count

    def keep(self, key: tuple[int, int], back: int = 0) -> float:
        """Bytes that saving the `back`-th latest tensor of that size adds."""
        known = self.latest.setdefault(key, [])
        while len(known) <= back:
            self.count += 1
            known.insert(0, self.count)
        tensor = known[-1 - back]
        if tensor in self.kept:
            return 0.0
        self.kept.add(tensor)
        return float(key[0] * key[1])

    def step(self, name: str, inputs: Sequence[tuple[int, int] | None], out: int) -> None:
        """One operator: `inputs` are (elements, bytes each), None what is no tensor."""
        short = name.removeprefix("aten::").rstrip("_")
        first = inputs[0] if inputs else None
        if short == "bernoulli" and first:
            self.masks.add(first[0])
            return
        wanted, attention = INPUTS.get(short), any(part in name for part in ATTENTION)
        weights = sum(_bytes(inputs, i) for i in WEIGHTS.get(short, ()))
        if attention:
            saved = self._attention(inputs)
        elif short == "mul":
            saved = self._product(inputs)
        elif short == "native_dropout" and first:
            saved = float(first[0])  # a mask of one byte each
            self.make(first)
        elif wanted is not None:
            saved = sum(self.keep(key) for i in wanted if (key := _at(inputs, i)))
        elif short in RESULTS and first:
            saved = self.keep(first) if name.endswith("_") else self._result(first)
        elif short in PASSING and first:
            self.make(first)
            return
        else:
            return
        if short.startswith("max_pool2d_with") and first:
            saved += 8.0 * out
        if out and first and short not in RESULTS:
            self.make((out, first[1] if short != "embedding" else _size(inputs, 0)))
        flight = out * (first[1] if first else 4.0)
        if self.trained:  # the first layer's input needs no gradient
            flight += _bytes(inputs, _main(short))
        self.trained = self.trained or weights > 0
        self.places.append((saved, weights, flight))

    def _result(self, key: tuple[int, int]) -> float:
        self.make(key)
        return self.keep(key)

    def _product(self, inputs: Sequence[tuple[int, int] | None]) -> float:
        """mul saves what the other side needs; a random mask needs nothing itself."""
        a, b = _at(inputs, 0), _at(inputs, 1)
        if a is None or b is None or b[0] == 1 or a[0] == 1:
            if a is not None:
                self.make(a)
            return 0.0
        if b[0] in self.masks:
            self.masks.discard(b[0])
            saved = self.keep(b)
        else:
            saved = self.keep(a, 1 if a == b else 0) + self.keep(b)
        self.make(max(a, b))
        return saved

    def _attention(self, inputs: Sequence[tuple[int, int] | None]) -> float:
        given = [key for key in inputs[:3] if key]
        saved = sum(self.keep(key, given[: i + 1].count(key) - 1) for i, key in enumerate(given))
        return saved + (self._result(given[0]) if given else 0.0)


def _main(short: str) -> int:
    return {"addmm": 1, "baddbmm": 1}.get(short, 0)


def _at(inputs: Sequence[tuple[int, int] | None], index: int) -> tuple[int, int] | None:
    return inputs[index] if index < len(inputs) else None


def _bytes(inputs: Sequence[tuple[int, int] | None], index: int) -> float:
    key = _at(inputs, index)
    return float(key[0] * key[1]) if key else 0.0


def _size(inputs: Sequence[tuple[int, int] | None], index: int) -> int:
    key = _at(inputs, index)
    return key[1] if key else 4


def activations(window: Window, steps: int = 1) -> Activations | None:
    """Of the forward operators of a captured window; None where none saves anything."""
    walk = _Walk()
    for node in _forward(window.nodes):
        walk.step(node.name, _inputs(node), _outputs(node))
    if not any(saved for saved, _, _ in walk.places):
        return None
    places = walk.places[: math.ceil(len(walk.places) / max(1, steps))]
    return Activations(sum(s for s, _, _ in places), _points(places))


def rows(window: Window, *, pid: int, steps: int, t_ns: int) -> list[dict[str, Any]]:
    """The row of table `event` for a captured window, if its forward pass saves anything."""
    found = activations(window, steps)
    if found is None:
        return []
    data = msgspec.json.encode(found).decode()
    return [{"t_ns": t_ns, "kind": EVENT, "pid": pid, "rank": None, "data": data}]


def _forward(nodes: Iterable[Node]) -> list[Node]:
    """Forward calls in order; of an operator within one of its own kind the inner one goes."""
    kept: list[Node] = []
    for node in sorted(nodes, key=lambda n: (n.start, -n.end)):
        if node.annotation or node.phase != "forward" or not node.name.startswith("aten::"):
            continue
        short = node.name.removeprefix("aten::").rstrip("_")
        known = short in INPUTS or short in RESULTS or short in PASSING or short in (
            "mul", "bernoulli", "native_dropout"
        ) or any(part in short for part in ATTENTION)  # fmt: skip
        if not known or (kept and node.end <= kept[-1].end and _covers(kept[-1].name)):
            continue
        kept.append(node)
    return kept


def _covers(name: str) -> bool:
    """Operators whose inner ones are their own business."""
    short = name.removeprefix("aten::")
    return short not in ("dropout", "contiguous", "_to_copy", "mean")


def _points(places: Sequence[tuple[float, float, float]]) -> list[tuple[float, float]]:
    """(activations, gradients) at each place of the backward pass that may be the highest."""
    found, gradients = [], sum(weights for _, weights, _ in places)
    done, saved = 0.0, sum(s for s, _, _ in places)
    for kept, weights, flight in reversed(places):
        done += weights
        found.append((saved + flight, done))
        saved -= kept
    found.append((0.0, gradients))
    best: list[tuple[float, float]] = []
    for grows, fixed in sorted(found, reverse=True):
        if not best or fixed > best[-1][1]:
            best.append((grows, fixed))
    every = max(1, math.ceil(len(best) / MOST_POINTS))
    return [*best[::every], best[-1]] if every > 1 else best


def _inputs(node: Node) -> list[tuple[int, int] | None]:
    args = node.args
    dims: Any = (args.dims or args.dims_old) if args else None
    types: Any = args.types if args else None
    made: list[tuple[int, int] | None] = []
    for index, shape in enumerate(dims if isinstance(dims, list) else []):
        kind = types[index] if isinstance(types, list) and index < len(types) else ""
        whole = isinstance(shape, list) and shape and all(isinstance(d, int) for d in shape)
        made.append((math.prod(shape), SIZES.get(kind, 4)) if whole and kind in SIZES else None)
    return made


def _outputs(node: Node) -> int:
    """Elements of an operator's result, as far as its inputs tell."""
    args = node.args
    dims: Any = ((args.dims or args.dims_old) if args else None) or []
    short = node.name.removeprefix("aten::").rstrip("_")
    shapes = [d if isinstance(d, list) and all(isinstance(x, int) for x in d) else [] for d in dims]
    made = 0
    if short in ("addmm", "baddbmm") and len(shapes) > 2 and shapes[1] and shapes[2]:
        made = math.prod(shapes[1][:-1]) * shapes[2][-1]
    elif short in ("mm", "bmm") and len(shapes) > 1 and shapes[0] and shapes[1]:
        made = math.prod(shapes[0][:-1]) * shapes[1][-1]
    elif short == "convolution" and len(shapes) > 1 and len(shapes[1]) > 2:
        flops = node.below_flops or (node.work.flops if node.work else None) or 0.0
        made = int(flops / 2 / math.prod(shapes[1][1:]))
    elif short == "embedding" and len(shapes) > 1 and shapes[0]:
        made = math.prod(shapes[1]) * shapes[0][-1]
    elif short.startswith("max_pool2d_with") and shapes and shapes[0]:
        made = math.prod(shapes[0]) // 4
    elif shapes and shapes[0] and short not in ("avg_pool2d", "_adaptive_avg_pool2d"):
        made = math.prod(shapes[0]) if "nll_loss" not in short else 0
    return made
