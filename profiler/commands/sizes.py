"""Sizes that a user writes: `500MB`, `2G`, `64MiB` or plain bytes."""

from __future__ import annotations

import re

from ..errors import UserError

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE | re.ASCII)
_MOST = 1 << 60


def size_bytes(option: str, text: str) -> int:
    """The size. Raises `UserError`."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise UserError(f"{option} {text[:40]!r}: write a size as 500MB or 40GiB")
    number, prefix, binary = match.groups()
    base = 1024.0 if binary else 1000.0
    size: float = float(number) * base ** " KMGT".index(prefix.upper() or " ")
    if size > _MOST:
        raise UserError(f"{option} {text[:40]!r}: larger than any disk or memory")
    return int(size)
