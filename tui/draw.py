"""Drawing with characters: pure functions from numbers to Text. They compute nothing else.

Every phase has a colour and a letter (profiler/reports/phases.py): the letter stands in each cell
in a shade of its colour, so that the pictures can be read without colour too.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from ..profiler.report import SHARES
from ..profiler.reports import figures, phases
from ..profiler.reports.plain import clean, wrap
from .model import Column, Shares

BLOCKS = " ▁▂▃▄▅▆▇█"
QUIET = Style(dim=True)
STRONG = Style(bold=True)
CHOSEN = Style(reverse=True, bold=True)
ALARM = Style(color="#D55E00", bold=True)
_METER = Style(color="#56B4E9")
_METER_HIGH = Style(color="#E69F00")
_P50 = Style(color="#56B4E9")
_P95 = Style(color="#56B4E9", dim=True)


def _shade(colour: str) -> str:
    red, green, blue = Color.parse(colour).get_truecolor()
    return f"#{int(red * 0.62):02x}{int(green * 0.62):02x}{int(blue * 0.62):02x}"


_CELL = {
    name: Style(color=_shade(look.colour), bgcolor=look.colour)
    for name, look in phases.LOOKS.items()
}
_LABEL = {
    name: Style(color="#000000", bgcolor=look.colour, bold=True)
    for name, look in phases.LOOKS.items()
}


def same(one: Text, other: Text) -> bool:
    """Whether both look alike."""
    return one == other and one.style == other.style


def strip(line: Text, width: int, base: Style, console: Console) -> Strip:
    """A line of the screen on the ground of its widget."""
    own = base + console.get_style(line.style)
    return Strip(line.render(console, end="")).adjust_cell_length(width, base).apply_style(own)


def notes(text: str, width: int, style: Style = QUIET) -> list[Text]:
    """A remark over as many lines as it takes."""
    return [Text(line, style) for line in wrap(text, max(1, width))]


def chip(bottleneck: str) -> Text:
    """A verdict in its colour."""
    share = phases.SHARE_OF_BOTTLENECK.get(bottleneck, "other")
    return Text.assemble((f" {bottleneck.upper()} ", _LABEL[share]))


def share_bar(shares: Shares, width: int) -> Text:
    """One bar of all shares, each with its letter and figure where it has room."""
    if not shares:
        return Text("no steps".ljust(width)[:width], QUIET)
    found = [(name, shares.get(name, 0.0)) for name in SHARES]
    bar = Text()
    for (name, value), cells in zip(
        found, phases.cells([value for _, value in found], width), strict=True
    ):
        label = f"{phases.LOOKS[name].letter} {figures.share(value)}"
        if len(label) + 2 <= cells:
            bar.append(f" {label} ".ljust(cells), _LABEL[name])
        else:
            bar.append((phases.LOOKS[name].letter * cells)[:cells], _CELL[name])
    return bar


def legend(groups: Sequence[Shares], width: int) -> Text:
    """The letters of the phases that show up, with their names."""
    line = Text(no_wrap=True, overflow="ellipsis")
    for name in SHARES:
        if any(group.get(name, 0.0) >= 0.005 for group in groups):
            if line.cell_len + len(name) + 5 > width:
                break
            line.append(f" {phases.LOOKS[name].letter} ", _LABEL[name])
            line.append(f" {name}  ")
    return line


def timeline(columns: Sequence[Column], width: int, height: int) -> list[Text]:
    """A stacked column of shares for each stretch of time, input at the bottom."""
    if not columns or height < 1:
        return []
    stacks = [_stack(column.shares, height) for column in columns]
    rows = []
    for row in range(height - 1, -1, -1):
        names = [stacks[at * len(stacks) // width][row] for at in range(width)]
        line = Text(no_wrap=True)
        for name, run in itertools.groupby(names):
            cells = len(list(run))
            if name:
                line.append(phases.LOOKS[name].letter * cells, _CELL[name])
            else:
                line.append(" " * cells)
        rows.append(line)
    return rows


def _stack(shares: Shares, height: int) -> list[str]:
    """The phase of each cell of a column, from the bottom; "" where there is none."""
    if not shares:
        return [""] * height
    given = phases.cells([shares.get(name, 0.0) for name in SHARES], height)
    return [name for name, cells in zip(SHARES, given, strict=True) for _ in range(cells)]


def axis(width: int, left: str, right: str, cursor: float | None) -> Text:
    """A time axis; `cursor` is a place on it, 0..1."""
    line = list((left + " ").ljust(max(0, width - len(right) - 1), "─") + " " + right)[:width]
    text = Text("".join(line), QUIET, no_wrap=True)
    if cursor is None or width < 1:
        return text
    at = min(width - 1, max(0, int(cursor * width)))
    return Text.assemble(text[:at], ("▲", STRONG), text[at + 1 :])


def step_chart(
    columns: Sequence[Column], width: int, height: int, ceiling: float | None
) -> list[Text]:  # fmt: skip
    """Step times: solid up to the median of each column, shaded up to its p95."""
    if not columns or not ceiling or height < 1:
        return [Text("no steps yet", QUIET)]
    levels = [_levels(columns[at * len(columns) // width], ceiling, height) for at in range(width)]
    rows = []
    for row in range(height - 1, -1, -1):
        top = row == height - 1
        cells = [_step_cell(middle, high, row * 8, top=top) for middle, high in levels]
        line = Text(no_wrap=True)
        for style, run in itertools.groupby(cells, key=lambda cell: cell[1]):
            line.append("".join(char for char, _ in run), style)
        rows.append(line)
    return rows


def _levels(column: Column, ceiling: float, height: int) -> tuple[int, int]:
    """Median and p95 in eighths of a cell."""
    each = height * 8 / ceiling
    return round((column.p50_ms or 0.0) * each), round((column.p95_ms or 0.0) * each)


def _step_cell(middle: int, high: int, base: int, *, top: bool) -> tuple[str, Style]:
    if top and high > base + 9:
        return "▲", ALARM  # above the chart
    if middle > base:
        return BLOCKS[min(8, middle - base)], _P50
    return ("░" if high >= base + 4 else " "), _P95


def meter(share: float | None, width: int, *, warns: bool = True) -> Text:
    """A horizontal bar of a share, in eighths of a cell; `warns`: nearly full looks different."""
    if share is None:
        return Text("·" * width, QUIET)
    eighths = round(min(1.0, max(0.0, share)) * width * 8)
    full, rest = divmod(eighths, 8)
    bar = "█" * full + ("▏▎▍▌▋▊▉"[rest - 1] if rest else "")
    style = _METER_HIGH if warns and share > 0.9 else _METER
    return Text.assemble((bar, style), ("·" * (width - len(bar)), QUIET))


def sparkline(values: Sequence[float | None], width: int, top: float | None) -> Text:
    """Values over time in eighths of a cell under `top`; a dot where there is none."""
    return chart(values, width, 1, top)[0]


def chart(
    values: Sequence[float | None], width: int, height: int, top: float | None
) -> list[Text]:  # fmt: skip
    """As a sparkline, over several rows; the first is the uppermost."""
    picked = [values[at * len(values) // width] for at in range(width)] if values else []
    levels = [None if v is None or not top else round(v / top * height * 8) for v in picked]
    lines = []
    for row in range(height - 1, -1, -1):
        least, none = (1, "·") if row == 0 else (0, " ")
        cells = "".join(
            none if level is None else BLOCKS[min(8, max(least, level - row * 8))]
            for level in levels or [None] * width
        )
        line = Text(no_wrap=True)
        for missing, run in itertools.groupby(cells, key=lambda cell: cell == "·"):
            line.append("".join(run), QUIET if missing else _METER)
        lines.append(line)
    return lines


def core_meters(
    shares: Sequence[float | None], width: int, most_rows: int
) -> list[Text] | None:  # fmt: skip
    """A meter a core in columns; None when they take more rows than there are."""
    each = 18
    in_row = max(1, width // each)
    if -(-len(shares) // in_row) > most_rows:
        return None
    lines: list[Text] = []
    for at, share in enumerate(shares):
        if at % in_row == 0:
            lines.append(Text(no_wrap=True))
        lines[-1].append(f"{at:>2} ", QUIET)
        lines[-1].append_text(meter(share, 8))
        lines[-1].append(f"{figures.share(share):>6} ")
    return lines


def core_strip(shares: Sequence[float | None], width: int) -> list[Text]:
    """One cell a core, its height the core's load."""
    lines: list[Text] = []
    for at in range(0, len(shares), max(1, width)):
        cells = (_core(share) for share in shares[at : at + max(1, width)])
        line = Text(no_wrap=True)
        for style, run in itertools.groupby(cells, key=lambda cell: cell[1]):
            line.append("".join(char for char, _ in run), style)
        lines.append(line)
    return lines


def _core(share: float | None) -> tuple[str, Style]:
    if share is None:
        return "?", QUIET
    return BLOCKS[min(8, max(1, round(share * 8)))], _METER_HIGH if share > 0.9 else _METER


_STATES = {  # of the letters in /proc/PID/stat
    "R": "running", "S": "sleeping", "D": "disk-sleep", "T": "stopped", "t": "traced",
    "Z": "zombie", "X": "dead", "I": "idle",
}  # fmt: skip
_STATE_STYLES = {
    "running": Style(color="#009E73"),
    "disk-sleep": ALARM,
    "zombie": ALARM,
}


def state(letter_or_word: str | None) -> Text:
    """The state of a process in words."""
    found = _STATES.get(letter_or_word or "", letter_or_word or figures.UNKNOWN)
    return Text(clean(found, 12), _STATE_STYLES.get(found, Style.null()))


def span(begin: float, share: float, width: int, name: str) -> Text:
    """A bar from `begin` over `share` of the width, 0..1, in the colour of a share of time."""
    left = min(width - 1, max(0, round(begin * width)))
    cells = max(1, min(width - left, round(share * width)))
    look = phases.LOOKS[name]
    return Text.assemble(
        " " * left, (look.letter * cells, _CELL[name]), " " * (width - left - cells)
    )


def letter(name: str) -> Text:
    """A phase's letter in its colour."""
    return Text.assemble((f" {phases.LOOKS[name].letter} ", _LABEL[name]))
