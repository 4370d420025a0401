"""The report as plain text for a terminal, a mail or a log: 80 columns, tables aligned."""

from __future__ import annotations

from collections.abc import Iterator

from ..report import Report
from .document import Block, Bullets, Cell, Code, Document, Paragraph, Table
from .plain import align, clean, width, wrap
from .sections import document

COLUMNS = 80
_GAP = 2
_MIN_COLUMN = 8


def render(report: Report) -> str:
    """The report of a run as plain text."""
    return write(document(report))


def write(found: Document) -> str:
    """Any document as plain text."""
    lines = [*wrap(f"{found.verdict}: {found.headline}", COLUMNS), "", *_block(found.run)]
    for section in found.sections:
        lines += ["", section.title.upper()]
        for at, block in enumerate(section.blocks):
            lines += [""] if at else []
            lines += _block(block)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _plain(cell: Cell) -> str:
    return clean(cell.text if isinstance(cell, Code) else cell)


def _block(block: Block) -> list[str]:
    if isinstance(block, Paragraph):
        return wrap("".join(p.text if isinstance(p, Code) else p for p in block.parts), COLUMNS)
    if isinstance(block, Bullets):
        return [line for item in block.items for line in _bullet(_plain(item))]
    return list(_table(block))


def _bullet(text: str) -> Iterator[str]:
    for at, line in enumerate(wrap(text, COLUMNS - 2)):
        yield ("  " if at else "- ") + line


def _table(table: Table) -> Iterator[str]:
    rows = [tuple(_plain(cell) for cell in row) for row in table.rows]
    widths = _widths([table.head, *rows])
    for row in [table.head, *rows]:
        cells = [wrap(text, room) for text, room in zip(row, widths, strict=True)]
        for at in range(max(len(lines) for lines in cells)):
            yield (" " * _GAP).join(
                align(lines[at] if at < len(lines) else "", widths[column],
                         right=column in table.right)
                for column, lines in enumerate(cells)
            )  # fmt: skip


def _widths(rows: list[tuple[str, ...]]) -> list[int]:
    """Natural widths; while a row is longer than the line, its widest column gives way."""
    widths = [max(1, *(width(row[at]) for row in rows)) for at in range(len(rows[0]))]
    room = COLUMNS - _GAP * (len(widths) - 1)
    while sum(widths) > room:
        widest = widths.index(max(widths))
        if widths[widest] <= _MIN_COLUMN:
            break
        widths[widest] -= 1
    return widths
