"""Figures as words, the same everywhere in a report."""

from __future__ import annotations

# The shares of the time, in words
NAMES = {
    "input": "waiting for data", "transfer": "copies between host and device",
    "compute": "arithmetic", "memory": "memory traffic", "host": "Python and dispatch",
    "communication": "waiting for other ranks", "checkpoint": "saving checkpoints",
    "logging": "logging", "evaluation": "evaluation", "other": "time that could not be split",
}  # fmt: skip


def duration(seconds: float) -> str:
    """A time to two or three digits with a fitting unit."""
    if seconds >= 86400 * 2:
        return f"{seconds / 86400:.1f} days"
    if seconds >= 7200:
        return f"{seconds / 3600:.1f} h"
    if seconds >= 120:
        return f"{seconds / 60:.1f} min"
    if seconds >= 1:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.1f} ms" if seconds < 0.1 else f"{seconds * 1e3:.0f} ms"
    return f"{seconds * 1e6:.1f} us"


def percent(share: float) -> str:
    return f"{share * 100:.1f} %" if share < 0.095 else f"{share * 100:.0f} %"


def size(count: float) -> str:
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return (
                f"{count / factor:.1f} {unit}"
                if count < 100 * factor
                else (f"{count / factor:.0f} {unit}")
            )
    return f"{count:.0f} B"


def many(count: float, noun: str, plural: str | None = None) -> str:
    number = f"{count:,.0f}"
    return f"{number} {noun if number == '1' else plural or noun + 's'}"


def within(title: str) -> str:
    """A title within a sentence: names keep their capital."""
    return title if title.startswith(("Python", "DataLoader")) else title[0].lower() + title[1:]
