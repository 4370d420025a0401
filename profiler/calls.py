"""Forwards that stand for many short calls of one root: see hooks/ring.py."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ..hooks import wire
from .ring import Span

MOST = 1 << 16  # calls a span: more than 50 ms have room for


def calls_of(span: Span) -> int:
    """How many calls a span stands for."""
    return min(max(1, span[5]), MOST) if span[3] & wire.F_CALLS else 1


def split(span: Span) -> Iterator[Span]:
    """The calls, taken as equally long and with nothing between them."""
    start, end, kind, flags, ident, _ = span
    count = min(calls_of(span), max(1, end - start))
    borders = [start + (end - start) * n // count for n in range(count + 1)]
    for begun, ended in itertools.pairwise(borders):
        yield begun, ended, kind, flags & ~wire.F_CALLS, ident, 0
