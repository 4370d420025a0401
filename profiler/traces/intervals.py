"""Sets of time as sorted, disjoint (start, end) pairs."""

from __future__ import annotations

from collections.abc import Iterable

Spans = list[tuple[float, float]]


def union(spans: Iterable[tuple[float, float]]) -> Spans:
    """The spans merged; empty and reversed ones are left out."""
    merged: Spans = []
    for start, end in sorted(s for s in spans if s[1] > s[0]):
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def intersect(a: Spans, b: Spans) -> Spans:
    """Time in both sets."""
    found: Spans = []
    i = j = 0
    while i < len(a) and j < len(b):
        start, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if start < end:
            found.append((start, end))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return found


def subtract(a: Spans, b: Spans) -> Spans:
    """Time in the first set and not in the second."""
    found: Spans = []
    j = 0
    for start, end in a:
        at = start
        while j < len(b) and b[j][1] <= at:
            j += 1
        k = j
        while k < len(b) and b[k][0] < end:
            if b[k][0] > at:
                found.append((at, b[k][0]))
            at = max(at, b[k][1])
            k += 1
        if at < end:
            found.append((at, end))
    return found


def length(spans: Spans) -> float:
    return sum(end - start for start, end in spans)
