"""Rows of words as aligned columns, for a terminal or a pipe."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def columns(rows: Sequence[Sequence[str]], *, left: Collection[int] = (0,)) -> list[str]:
    """A line a row, two spaces between columns; those in `left` start flush, figures end flush."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    made = []
    for row in rows:
        cells = [
            cell.ljust(width) if index in left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        made.append("  ".join(cells).rstrip())
    return made
