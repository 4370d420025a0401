"""The roofline in characters: ceilings as lines of dots, operators as letters under them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.style import Style
from rich.text import Text

from ..profiler.reports import figures, phases
from ..profiler.series import OpPoint, Roof
from . import draw

LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MARGIN = 14  # cells of the axis at the left
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row and column of a cell
_ROOF = Style(bold=True)
BOUND = {
    name: Style(color=phases.LOOKS[share].colour, bold=True)
    for name, share in (
        ("compute", "compute"), ("memory", "memory"), ("latency", "host"), ("unknown", "other"),
    )
}  # fmt: skip


@dataclass(frozen=True)
class _Scale:
    """Decades of both axes over a field of cells."""

    left: float
    right: float
    bottom: float
    top: float
    width: int
    height: int

    def across(self, intensity: float) -> float:
        return (math.log10(intensity) - self.left) / (self.right - self.left)

    def up(self, rate: float) -> float:
        return (math.log10(rate) - self.bottom) / (self.top - self.bottom)


def roofline(ops: Sequence[OpPoint], roof: Roof, width: int, height: int) -> list[Text]:
    """FLOP/s over FLOPs a byte, both logarithmic; the first operators carry the letters a to z."""
    field_width, field_height = width - _MARGIN, height - 2
    if field_width < 10 or field_height < 3 or not roof.flops:
        return draw.notes("too little room for the chart", width)
    roof = _of_use(ops, roof)
    scale = _scale(ops, roof, field_width, field_height)
    dots = [[0] * field_width for _ in range(field_height)]
    for peak in roof.flops.values():
        _line(dots, scale, peak, roof.bytes_per_s)
    marks = _marks(ops, scale)
    lines = [_row(dots[row], row, marks, scale, roof) for row in range(field_height)]
    return [*lines, *_axis(scale)]


def _of_use(ops: Sequence[OpPoint], roof: Roof) -> Roof:
    """Only the ceilings of precisions that an operator has: a datasheet lists ten."""
    used = {op.dtype for op in ops}
    peaks = {name: peak for name, peak in roof.flops.items() if name in used}
    return replace(roof, flops=peaks or roof.flops)


def _scale(ops: Sequence[OpPoint], roof: Roof, width: int, height: int) -> _Scale:
    ridge = max(roof.flops.values()) / roof.bytes_per_s
    xs = [math.log10(op.intensity) for op in ops if op.intensity > 0] + [math.log10(ridge)]
    ys = [math.log10(op.flops_per_s) for op in ops if op.flops_per_s > 0]
    top = math.log10(max(roof.flops.values())) + 0.4
    return _Scale(
        math.floor(min(xs) - 0.2), math.ceil(max(*xs, math.log10(ridge) + 0.7)),
        math.floor(min([*ys, top - 3.4])), top, width, height,
    )  # fmt: skip


def _line(dots: list[list[int]], scale: _Scale, peak: float, bytes_per_s: float) -> None:
    """A roof: the memory slope up to the peak, then flat; two dots a cell across, four down."""
    before: int | None = None
    for at in range(scale.width * 2):
        decade = scale.left + (at + 0.5) / (scale.width * 2) * (scale.right - scale.left)
        y = 1.0 - scale.up(min(peak, 10**decade * bytes_per_s))
        dot = int(y * scale.height * 4)
        for place in range(min(dot, before if before is not None else dot), dot + 1):
            _set(dots, at, place)
        for place in range(dot, (before if before is not None else dot)):
            _set(dots, at, place)
        before = dot


def _set(dots: list[list[int]], x: int, y: int) -> None:
    if 0 <= y < len(dots) * 4:
        dots[y // 4][x // 2] |= _DOTS[y % 4][x % 2]


def _marks(ops: Sequence[OpPoint], scale: _Scale) -> dict[tuple[int, int], tuple[str, Style]]:
    """Row and column of each operator; of those in one cell the one with more time is seen."""
    found: dict[tuple[int, int], tuple[str, Style]] = {}
    for at, op in enumerate(ops):
        if op.intensity <= 0 or op.flops_per_s <= 0:
            continue
        column = min(scale.width - 1, max(0, int(scale.across(op.intensity) * scale.width)))
        row = min(scale.height - 1, max(0, int((1 - scale.up(op.flops_per_s)) * scale.height)))
        letter = LETTERS[at] if at < len(LETTERS) else "·"
        found.setdefault((row, column), (letter, BOUND[op.bound]))
    return found


def _row(
    dots: Sequence[int], row: int, marks: dict[tuple[int, int], tuple[str, Style]],
    scale: _Scale, roof: Roof,
) -> Text:  # fmt: skip
    line = Text.assemble((_label(row, scale).rjust(_MARGIN - 2) + " │", draw.QUIET))
    cells = [
        marks.get((row, column), (chr(0x2800 + bits) if bits else " ", _ROOF))
        for column, bits in enumerate(dots)
    ]
    for style, run in itertools.groupby(cells, key=lambda cell: cell[1]):
        line.append("".join(char for char, _ in run), style)
    for name, peak in roof.flops.items():
        if int((1 - scale.up(peak)) * scale.height) - 1 == row:
            text = f"{name} {figures.arithmetic(peak)} "
            return Text.assemble(line[: -len(text)], (text, draw.QUIET))
    return line


def _label(row: int, scale: _Scale) -> str:
    """The decade whose line lies in this row."""
    high = scale.top - row / scale.height * (scale.top - scale.bottom)
    low = scale.top - (row + 1) / scale.height * (scale.top - scale.bottom)
    decade = math.floor(high)
    return figures.arithmetic(10**decade) if low < decade <= high else ""


def _axis(scale: _Scale) -> Iterator[Text]:
    yield Text(" " * (_MARGIN - 1) + "└" + "─" * scale.width, draw.QUIET)
    line = [" "] * (scale.width + _MARGIN)
    for decade in range(int(scale.left), int(scale.right)):
        at = _MARGIN + int((decade - scale.left) / (scale.right - scale.left) * scale.width)
        text = figures.number(10.0**decade)
        if at + len(text) < len(line) - 14:
            line[at : at + len(text)] = text
    line[-12:] = "FLOPs a byte"
    yield Text("".join(line), draw.QUIET)
