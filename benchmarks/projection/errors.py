"""Where the errors come from: the pairs by source, by kind of job and by workload."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .score import Pair

FEWEST = 10  # pairs that a row of the tables needs


def _kind(pair: Pair) -> str:
    row = pair.target
    if row.task == "train":
        return "training"
    return "inference, batch 16 and more" if row.batch >= 16 else "inference, batch under 16"


GROUPS: dict[str, Callable[[Pair], str]] = {
    "source": lambda p: p.target.origin,
    "kind": _kind,
    "workload": lambda p: p.target.workload,
}


def tables(pairs: Sequence[Pair]) -> Iterator[str]:
    """Lines of the tables, largest group first; the groups under FEWEST are one row."""
    for title, key in GROUPS.items():
        groups: dict[str, list[Pair]] = defaultdict(list)
        for pair in pairs:
            groups[key(pair)].append(pair)
        small = [p for found in groups.values() if len(found) < FEWEST for p in found]
        shown = {name: found for name, found in groups.items() if len(found) >= FEWEST}
        if small:
            shown[f"{len(groups) - len(shown)} more"] = small
        yield f"\n  {title:44} {'pairs':>6} {'median':>8} {'p90':>8} {'signed':>8} {'worst':>6}"
        over = sorted(abs(p.error) for p in pairs)[int(0.9 * (len(pairs) - 1))]
        for name, found in sorted(shown.items(), key=lambda item: -len(item[1])):
            yield _line(name, found, over)


def _line(name: str, found: Sequence[Pair], over: float) -> str:
    """`worst`: how many of its pairs are among the worst tenth of all."""
    errors = sorted(abs(p.error) for p in found)
    return (
        f"  {name[:44]:44} {len(found):6d} {statistics.median(errors) * 100:6.1f} % "
        f"{errors[int(0.9 * (len(errors) - 1))] * 100:6.0f} % "
        f"{statistics.median(p.error for p in found) * 100:+6.1f} % "
        f"{sum(e > over for e in errors):6d}"
    )
