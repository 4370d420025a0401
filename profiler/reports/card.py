"""The verdict card: what a run prints at its end. Made to be pasted into a ticket.

At most `width` columns, about 16 lines, and readable without colour: the bar's fills differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ..report import Report
from . import content, figures, phases
from .paint import Paint
from .plain import clean, fit, wrap
from .plain import width as cells_of

MIN_WIDTH = 60
_LABEL = 9  # cells of the left column
_ASCII = str.maketrans(
    {"█": "I", "▓": "C", "▒": "M", "░": "H", "≈": "T", "×": "N", "#": "K", "=": "L", "~": "E",
     "·": "-", "─": "-", "…": "~", "µ": "u", "–": "-", "■": "*"}
)  # fmt: skip


def render_card(
    report: Report, colour: bool, width: int = 80, *, folder: Path | None = None
) -> str:
    """The card as text that ends in a newline. `folder`: the run's, when not in the library."""
    width = max(MIN_WIDTH, width)
    paint = Paint(colour)
    lines = [_title(report, width, paint), _verdict(report, paint, width)]
    lines += wrap(content.headline(report), width, 2)
    if report.time.shares:
        lines += ["", _bar(report.time.shares, width, paint)]
        lines += _legend(report.time.shares, width, paint)
    lines += ["", *_labelled("steps", [" · ".join(content.steps(report))], width, paint, 2)]
    lines += _labelled("because", _because(report), width, paint, 3)
    lines += _changes(report, width, paint)
    lines += _labelled("cost", [content.cost_in_brief(report)], width, paint, 2)
    lines += _labelled("gaps", _gaps(report), width, paint, 2)
    where = content.short_path(content.folder_of(report, folder))
    lines += _path("run", where, width, paint)
    lines += _path("more", content.report_command(report, folder), width, paint)
    return "\n".join(lines) + "\n"


def to_ascii(card: str) -> str:
    """The card for a terminal that has no Unicode."""
    return card.translate(_ASCII).encode("ascii", "replace").decode()


def _title(report: Report, width: int, paint: Paint) -> str:
    end = content.ending(report)
    room = width - len(end) - len("accelprof:   ─  ")
    name = fit(clean(report.run.name) or "run", max(4, room))
    line = "─" * max(1, width - cells_of(name) - len(end) - len("accelprof:   ") - 1)
    return f"accelprof: {paint.bold(name)} {paint.dim(line)} {end}"


def _verdict(report: Report, paint: Paint, width: int) -> str:
    verdict = report.verdict
    name = phases.SHARE_OF_BOTTLENECK.get(verdict.bottleneck, "other")
    rest = f"{verdict.confidence} confidence"
    if verdict.cause:
        rest += f" · cause: {clean(verdict.cause)}"
    head = verdict.bottleneck.upper()
    return f"{paint.chip(head, name)}  {fit(rest, width - len(head) - 2)}"


def _bar(shares: Mapping[str, float], width: int, paint: Paint) -> str:
    found = phases.largest_first(shares)
    widths = phases.cells([value for _, value in found], width)
    return "".join(
        paint.share(("█" if paint.on else phases.LOOKS[name].fill) * cells, name)
        for (name, _), cells in zip(found, widths, strict=True)
    )


def _legend(shares: Mapping[str, float], width: int, paint: Paint) -> Iterator[str]:
    line, used = "", 0
    for name, value in phases.largest_first(shares, at_least=0.005):
        mark = "■" if paint.on else phases.LOOKS[name].fill
        text = f" {name} {figures.share(value)}"
        gap = "   " if used else ""
        if used + len(gap) + 1 + len(text) > width:
            yield line
            line, used, gap = "", 0, ""
        line += gap + paint.share(mark, name) + text
        used += len(gap) + 1 + len(text)
    yield line


def _because(report: Report) -> list[str]:
    evidence = [clean(item.text) for item in report.verdict.evidence]
    return evidence or [clean(text) for text in report.verdict.against[:1]]


def _gaps(report: Report) -> list[str]:
    found = content.doubts(report)
    if missing := sum(not content.absent(gap) for gap in content.gaps(report)):
        found.append(figures.count(missing, "reading") + " missing, see the report")
    if unseen := content.not_observed(report):
        found.append(f"not observed: {unseen}")
    return ["; ".join(found)] if found else []


def _changes(report: Report, width: int, paint: Paint) -> Iterator[str]:
    """The first two changes in at most four lines; what one is worth is never cut off."""
    found = content.changes(report)[:2]
    left, room = 4, width - _LABEL - 3
    for at, change in enumerate(found):
        worth = f" ({change.worth})" if change.worth else ""
        lines = wrap(change.text + worth, room)
        most = max(1, left - (len(found) - at - 1) * 2) if at == 0 else left
        if len(lines) > most:
            rest = fit(" ".join(lines[most - 1 :]), room - len(worth))
            lines = [*lines[: most - 1], rest + worth]
        left -= len(lines)
        for line_at, line in enumerate(lines):
            label = "change" if at == line_at == 0 else ""
            number = f"{at + 1}. " if line_at == 0 else "   "
            yield paint.dim(label.ljust(_LABEL)) + number + line


def _labelled(label: str, items: list[str], width: int, paint: Paint, most: int) -> Iterator[str]:
    """Items beside a label in at most `most` lines; an item that does not fit whole waits for
    the report, only the first is cut rather than left out."""
    left = most
    for at, item in enumerate(filter(None, items)):
        lines = wrap(item, width - _LABEL)
        if len(lines) > left:
            if at:
                continue
            lines = wrap(item, width - _LABEL, left)
        left -= len(lines)
        for line in lines:
            yield paint.dim(label.ljust(_LABEL)) + line
            label = ""


def _path(label: str, text: str, width: int, paint: Paint) -> Iterator[str]:
    """A path or a command whole, in pieces when it is longer than the line: never cut."""
    room = width - _LABEL
    while text:
        piece = text[:room]
        while cells_of(piece) > room:
            piece = piece[:-1]
        yield paint.dim(label.ljust(_LABEL)) + piece
        text, label = text[len(piece) :], ""
