"""The report as Markdown that GitHub, GitLab and Jira show alike: tables and lists, no HTML.

Words of prose that Markdown would act on (`*`, `_`, `<`, `@name`, `#12`, links) become code
spans, so that text from the job stays what it is: nothing is emphasised, linked or mentioned.
"""

from __future__ import annotations

import re

from ..report import Report
from .document import Block, Bullets, Cell, Code, Document, Paragraph, Table
from .plain import clean
from .sections import document

# Characters and beginnings that some Markdown gives a meaning to
_ACTIVE = re.compile(r"[*_`\[\]<>|\\~^${}@&!]|#\w|://|\w\.[^\W\d]|:\w+:|^[-+=]+$|^#+$|^\d+[.)]$")
_EDGES = re.compile(r"([\"']*)(.*?)([.,;:?\"']*)", re.DOTALL)


def render(report: Report) -> str:
    """The report of a run as Markdown."""
    return write(document(report))


def write(found: Document) -> str:
    """Any document as Markdown."""
    lines = [f"**{found.verdict}**: {prose(found.headline)}", "", _block(found.run)]
    for section in found.sections:
        lines += ["", f"## {section.title}"]
        for block in section.blocks:
            lines += ["", _block(block)]
    return "\n".join(lines) + "\n"


def prose(text: str) -> str:
    """Text with the words that Markdown would act on as code."""
    words = clean(text).split(" ")
    return " ".join(_span(word) if _ACTIVE.search(word) else word for word in words)


def _span(word: str) -> str:
    """A word as code, with the brackets and the punctuation of the sentence left outside."""
    before, inner, after = _EDGES.fullmatch(word).groups()  # type: ignore[union-attr]
    while inner.startswith("(") and inner.count("(") > inner.count(")"):
        before, inner = before + "(", inner[1:]
    while inner.endswith(")") and inner.count(")") > inner.count("("):
        inner, after = inner[:-1], ")" + after
    if inner.startswith("(") and inner.endswith(")"):
        before, inner, after = before + "(", inner[1:-1], ")" + after
    return f"{before}{code(inner)}{after}" if inner else code(word)


def code(text: str) -> str:
    """A code span that holds `text` whatever is in it."""
    shown = clean(text) or " "
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def _cell(cell: Cell) -> str:
    return code(cell.text) if isinstance(cell, Code) else prose(cell)


def _in_table(cell: Cell) -> str:
    """A bar ends a cell even within a code span, unless it is escaped."""
    return _cell(cell).replace("|", "\\|") or " "


def _block(block: Block) -> str:
    if isinstance(block, Paragraph):
        return "".join(_keep_edges(part) for part in block.parts)
    if isinstance(block, Bullets):
        return "\n".join(f"- {_cell(item)}" for item in block.items)
    return _table(block)


def _keep_edges(part: Cell) -> str:
    if isinstance(part, Code):
        return code(part.text)
    before = " " if part.startswith(" ") else ""
    after = " " if part.endswith(" ") else ""
    return f"{before}{prose(part.strip())}{after}"


def _table(table: Table) -> str:
    rule = ["---:" if at in table.right else "---" for at in range(len(table.head))]
    rows = [list(table.head), rule, *([_in_table(c) for c in row] for row in table.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
