"""The verdict card: what a run prints at its end. Made to be pasted into a ticket.

At most `width` columns, up to MOST_LINES lines, and readable without colour: the bar's fills
differ. What does not fit is left out whole, the least first: words are not cut off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..report import Report
from . import content, figures, phases
from .paint import Paint
from .plain import clean, fit, wrap
from .plain import width as cells_of

MIN_WIDTH = 60
MOST_LINES = 22
_LABEL = 9  # cells of the left column
_MOST_OF_ONE = 6  # lines of one item: only a giant text is longer
_ASCII = str.maketrans(
    {"█": "I", "▓": "C", "▒": "M", "░": "H", "≈": "T", "×": "N", "#": "K", "=": "L", "~": "E",
     "·": "-", "─": "-", "…": "~", "µ": "u", "–": "-", "■": "*"}
)  # fmt: skip


def render_card(
    report: Report, colour: bool, width: int = 80, *, folder: Path | None = None
) -> str:
    """The card as text that ends in a newline. `folder`: the run's, when not in the library."""
    width = max(MIN_WIDTH, width)
    width, paint = max(MIN_WIDTH, width), Paint(colour)
    head = [_title(report, width, paint), _verdict(report, paint, width)]
    head += wrap(content.headline(report), width, 6)
    if report.time.shares:
        head += ["", _bar(report.time.shares, width, paint)]
        head += _legend(report.time.shares, width, paint)
    where = content.short_path(content.folder_of(report, folder))
    feet = [*_path("run", where, width, paint)]
    feet += _path("more", content.report_command(report, folder), width, paint)
    parts = _within(_parts(report), MOST_LINES - len(head) - 1 - len(feet), width - _LABEL)
    return "\n".join([*head, "", *_labelled(parts, width - _LABEL, paint), *feet]) + "\n"


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
    return found


@dataclass(frozen=True)
class _Part:
    """An item beside a label. Those of the highest `rank` are left out first; 0 stays."""

    label: str
    text: str
    rank: int
    number: str = ""  # before an item of a numbered list
    worth: str = ""  # its end, which stays when a giant text is cut

    def lines(self, room: int, most: int | None = None) -> list[str]:
        room -= len(self.number)
        found = wrap(self.text + self.worth, room)
        if most is not None and len(found) > most:
            rest = fit(" ".join(found[most - 1 :]), room - len(self.worth))
            found = [*found[: most - 1], rest + self.worth]
        margin = " " * len(self.number)
        return [(margin if at else self.number) + line for at, line in enumerate(found)]


def _parts(report: Report) -> list[_Part]:
    """What stands below the bar, in order."""
    changes = content.changes(report)[:2]
    found = [_Part("steps", " · ".join(content.steps(report)), 0)]
    found += [_Part("because", text, 3 * at) for at, text in enumerate(_because(report))]
    found += [
        _Part("change", change.text, 2 * at, f"{at + 1}. ",
              f" ({change.worth})" if change.worth else "")
        for at, change in enumerate(changes)
    ]  # fmt: skip
    found.append(_Part("cost", content.cost_in_brief(report), 0))
    found += [_Part("gaps", text, at + 1) for at, text in enumerate(_gaps(report))]
    return [part for part in found if part.text]


def _within(parts: list[_Part], most: int, room: int) -> list[_Part]:
    """The parts that fit in `most` lines: the last of the highest ranks go first."""
    while _height(parts, room) > most and (top := max(part.rank for part in parts)):
        parts.remove([part for part in parts if part.rank == top][-1])
    return parts


def _height(parts: list[_Part], room: int) -> int:
    return len(list(_labelled(parts, room, Paint(False))))


def _labelled(parts: list[_Part], room: int, paint: Paint) -> Iterator[str]:
    """The parts with the label before the first line of each; gaps share their lines."""
    gaps = "; ".join(part.text for part in parts if part.label == "gaps")
    shown = [part for part in parts if part.label != "gaps"]
    label = ""
    for part in [*shown, *([_Part("gaps", gaps, 0)] if gaps else [])]:
        for line in part.lines(room, _MOST_OF_ONE):
            yield paint.dim(("" if part.label == label else part.label).ljust(_LABEL)) + line
            label = part.label


def _path(label: str, text: str, width: int, paint: Paint) -> Iterator[str]:
    """A path or a command whole, in pieces when it is longer than the line: never cut."""
    room = width - _LABEL
    while text:
        piece = text[:room]
        while cells_of(piece) > room:
            piece = piece[:-1]
        yield paint.dim(label.ljust(_LABEL)) + piece
        text, label = text[len(piece) :], ""
