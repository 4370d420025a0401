"""Text from the job made safe to print, and laid out by terminal cells.

Names, paths and command lines of a job are untrusted: an escape sequence in one must not reach
the terminal, and a direction mark must not reorder a line. They are shown as visible escapes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from rich.cells import cell_len, set_cell_size

ELLIPSIS = "…"
# Controls, format characters (direction marks, zero-width), lone surrogates, line separators
_UNSAFE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_UNITS = r"%|(?:[mµu]?s|h|min|x|W|[KMGT]?i?B|[kMGT]?B(?:/s)?|[kMGTP]?FLOP/s)\b"
_UNIT_BREAK = re.compile(rf"(?<=\d) (?={_UNITS})")
_SPACES = frozenset("\t\n\r\v\f")


def clean(text: object, limit: int = 2000) -> str:
    """`text` on one line without a character that a terminal acts on, at most `limit` long."""
    raw = str(text)
    shown = "".join(_visible(raw[: limit + 1])).strip()
    return shown if len(raw) <= limit else shown[:limit].rstrip() + ELLIPSIS


def _visible(text: str) -> Iterator[str]:
    for char in text:
        if char in _SPACES:
            yield " "
        elif char.isascii() and char.isprintable():
            yield char
        elif unicodedata.category(char) in _UNSAFE:
            yield _escaped(ord(char))
        else:
            yield char


def _escaped(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def width(text: str) -> int:
    """Terminal cells that `text` takes."""
    return cell_len(text)


def fit(text: str, cells: int, *, pad: bool = False) -> str:
    """`text` within `cells`, an ellipsis for what is cut; with `pad` exactly that wide."""
    if cells <= 0:
        return ""
    if cell_len(text) > cells:
        text = set_cell_size(text, cells - 1).rstrip() + ELLIPSIS
    return set_cell_size(text, cells) if pad else text


def align(text: str, cells: int, *, right: bool = False) -> str:
    """`text` exactly `cells` wide, at the left or the right."""
    if right and cell_len(text) <= cells:
        return " " * (cells - cell_len(text)) + text
    return fit(text, cells, pad=True)


def fit_middle(text: str, cells: int) -> str:
    """As `fit`, but cut in the middle: for paths, whose end matters most."""
    if cell_len(text) <= cells:
        return text
    tail = max(0, (cells - 1) * 2 // 3)
    head = fit(text, cells - tail - 1) if cells - tail > 1 else ""
    end = text[-tail:] if tail else ""
    return fit(head.rstrip(ELLIPSIS) + ELLIPSIS + end, cells)


def wrap(text: str, cells: int, lines: int | None = None) -> list[str]:
    """`text` in lines of at most `cells`, at most `lines` of them, cut with an ellipsis."""
    done: list[str] = []
    line = ""
    for word in _words(text, cells):
        longer = f"{line} {word}" if line else word
        if cell_len(longer) <= cells:
            line = longer
        else:
            done.append(line)
            line = word
    done.append(line)
    if lines is not None and len(done) > lines:
        done = [*done[: lines - 1], fit(" ".join(done[lines - 1 :]), cells)]
    return done


def _words(text: str, cells: int) -> Iterator[str]:
    """Words, a unit together with its number, the ones longer than a line in pieces."""
    for word in _UNIT_BREAK.sub("\0", text).split():
        rest = word.replace("\0", " ")
        while cell_len(rest) > cells:
            piece = set_cell_size(rest, cells).rstrip() or rest[0]
            yield piece
            rest = rest[len(piece) :]
        if rest:
            yield rest
