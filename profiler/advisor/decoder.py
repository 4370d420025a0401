"""A decoder of a language model as the attention of a captured step shows it.

Keys and values take 2 x layers x heads of keys x head size x bytes of an element, for each token
of the context.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..diagnosis.model import OpRow
from .operators import Operator

NAME = "scaled_dot_product"


@dataclass(frozen=True)
class Shape:
    """A decoder as its attention shows it."""

    layers: int
    kv_heads: int
    heads: int
    head_size: int
    element_bytes: int
    batch: int
    length: int  # of the queries: 1 while it decodes
    context: int  # of the keys
    dtype: str | None

    @property
    def decodes(self) -> bool:
        return self.length == 1 and self.context > 1

    @property
    def kv_bytes(self) -> float:
        """Keys and values of one token of one sequence."""
        return 2.0 * self.layers * self.kv_heads * self.head_size * self.element_bytes


def shape(rows: Sequence[OpRow]) -> Shape | None:
    """From the attention operators of a capture; None without them, or of another layout."""
    found = [r for r in rows if NAME in r.name and "backward" not in r.name]
    names = {r.name for r in found}
    outer = next((n for n in sorted(names, key=len) if n.endswith("attention")), None)
    mine = [r for r in found if r.name == (outer or next(iter(names), None))]
    parsed = [(r, q, k) for r in mine for q, k in [_query_and_key(r.shapes)] if q and k]
    if not parsed:
        return None
    steps = sum({r.capture: max(1, r.steps) for r, _, _ in parsed}.values())
    row, query, key = max(parsed, key=lambda p: (p[2][2], p[0].calls))
    made = Operator.of(row.name, row.shapes, row.dtype, calls=1, flops=None, bytes=None)
    return Shape(
        layers=max(1, round(sum(r.calls for r, _, _ in parsed) / steps)), kv_heads=key[1],
        heads=query[1], head_size=query[3], element_bytes=made.size, batch=query[0],
        length=query[2], context=key[2], dtype=made.dtype,
    )  # fmt: skip


def _query_and_key(shapes: str) -> tuple[list[int], list[int]]:
    try:
        dims = json.loads(shapes or "[]")
    except ValueError:
        return [], []
    pair = [d for d in (dims if isinstance(dims, list) else [])[:2] if _is_shape(d)]
    return (pair[0], pair[1]) if len(pair) == 2 else ([], [])


def _is_shape(dims: Any) -> bool:
    return isinstance(dims, list) and len(dims) == 4 and all(isinstance(d, int) for d in dims)
