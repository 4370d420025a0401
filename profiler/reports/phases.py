"""How each share of wall time looks, in every output: one table of labels, letters and colours.

The colours are Okabe and Ito's palette (told apart with any colour vision) and two greys; the
letter and the fill let the same picture be read without colour at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..report import SHARES


class Look(NamedTuple):
    letter: str  # in a timeline
    fill: str  # in a bar without colour
    colour: str  # RGB
    ansi: int  # the nearest of the 256 terminal colours
    meaning: str


LOOKS: dict[str, Look] = {
    "input": Look("I", "█", "#E69F00", 214, "waiting for the next batch"),
    "transfer": Look("T", "≈", "#56B4E9", 74, "copies between host and device"),
    "compute": Look("C", "▓", "#009E73", 36, "arithmetic at work"),
    "memory": Look("M", "▒", "#3B82C4", 32, "memory bandwidth at work"),
    "host": Look("H", "░", "#D55E00", 166, "Python and launching small operators"),
    "communication": Look("N", "×", "#CC79A7", 175, "collectives between ranks"),
    "checkpoint": Look("K", "#", "#F0E442", 227, "saving checkpoints"),
    "logging": Look("L", "=", "#B8A5E3", 146, "metrics loggers"),
    "evaluation": Look("E", "~", "#8FA3B8", 109, "evaluation between training steps"),
    "other": Look("o", "·", "#7A7A7A", 243, "not told apart"),
}
assert tuple(LOOKS) == SHARES

# The share that a bottleneck stands for, for its colour and letter
SHARE_OF_BOTTLENECK = {f"{name}-bound": name for name in SHARES}


def look_of(bottleneck: str) -> Look:
    """The look of a verdict; `inconclusive` looks like `other`."""
    return LOOKS[SHARE_OF_BOTTLENECK.get(bottleneck, "other")]


def largest_first(shares: Mapping[str, float], *, at_least: float = 0.0) -> list[tuple[str, float]]:
    """Shares above 0, the largest first, `other` last; those under `at_least` left out."""
    found = [(name, shares[name]) for name in SHARES if shares.get(name, 0.0) > at_least]
    return sorted(found, key=lambda item: (item[0] == "other", -item[1]))


def cells(parts: list[float], total: int) -> list[int]:
    """`total` cells divided among `parts` by largest remainder; they always sum to `total`."""
    whole = sum(parts)
    if whole <= 0 or total <= 0:
        return [0] * len(parts)
    exact = [part / whole * total for part in parts]
    given = [int(value) for value in exact]
    by_rest = sorted(range(len(parts)), key=lambda at: given[at] - exact[at])
    for at in by_rest[: total - sum(given)]:
        given[at] += 1
    return given
