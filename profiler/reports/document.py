"""A report as a plain document: sections of paragraphs, lists and tables, for any written format.

`sections.py` fills it, `markdown.py` and `text.py` write it down. A string is prose (it may quote
the job); `Code` is a name, path or command of the job, to be shown literally.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True)
class Code:
    text: str


Cell: TypeAlias = str | Code


@dataclass(frozen=True)
class Paragraph:
    """Pieces that stand on one line, joined as they are."""

    parts: tuple[Cell, ...]


@dataclass(frozen=True)
class Bullets:
    items: list[Cell]


@dataclass(frozen=True)
class Table:
    head: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    right: tuple[int, ...] = ()  # columns of numbers


Block: TypeAlias = Paragraph | Bullets | Table


@dataclass(frozen=True)
class Section:
    title: str
    blocks: list[Block] = field(default_factory=list)


@dataclass(frozen=True)
class Document:
    verdict: str  # "Input-bound, high confidence"
    headline: str
    run: Paragraph
    sections: list[Section]
