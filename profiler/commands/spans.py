"""Lengths of time that a user writes: 90s, 10m, 8h, 2d."""

from __future__ import annotations

import re

from ..errors import UserError

_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(option: str, text: str) -> float:
    """The length in s; a number alone is in s."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    unit = _UNITS.get(found[2] or "s") if found else None
    if found is None or unit is None or float(found[1]) <= 0:
        raise UserError(f"{option} {text}: a number with s, m, h or d, such as 8h")
    return float(found[1]) * unit
