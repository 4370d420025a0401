"""Moments as a user writes them: a date, a date with a time, or how long ago."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from .errors import UserError

_AGO = re.compile(r"(\d{1,6})\s*(min|h|d|w)")
_UNITS = {"min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment(option: str, text: str, *, now: datetime | None = None) -> datetime:
    """`2026-11-30`, `2026-11-30T14:00`, `12h`, `7d`, `4w`; without an offset in local time."""
    now = now or datetime.now().astimezone()
    try:
        if ago := _AGO.fullmatch(text.strip()):
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        found = datetime.fromisoformat(text.strip())
        return found if found.tzinfo else found.astimezone()
    except (ValueError, OverflowError):
        raise UserError(
            f"{option} {text!r}: write 2026-11-30, or how long ago as 12h, 7d, 4w"
        ) from None
