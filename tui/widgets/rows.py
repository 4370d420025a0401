"""A table that scrolls, with a line that is chosen: drawn line by line, only what is seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from .. import draw

_SPARE = 2  # cells between columns
_LEAST_OF_LAST = 14  # cells: with less of it the last column says nothing

Row = Sequence[str | Text]


class Rows(ScrollView, can_focus=True):
    """Aligned columns under a head that stays; the last column is cut at the edge.

    Where the terminal is too narrow, columns give way in the order that is told.
    """

    DEFAULT_CSS = """
    Rows {
        height: 1fr;
        overflow-x: hidden;
        border-top: solid $primary-muted;
        border-title-color: $text-accent;
        border-title-style: bold;
        border-subtitle-color: $text-muted;
        scrollbar-size-vertical: 1;
        padding: 0 1;
    }
    Rows:focus { border-top: solid $accent; }
    Rows > .rows--chosen { background: $primary 30%; text-style: bold; }
    Rows:focus > .rows--chosen { background: $primary 60%; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"rows--chosen"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("g", "move(-100000)", show=False),
        Binding("G", "move(100000)", show=False),
    ]

    class Chosen(Message):
        """Another line was chosen."""

        def __init__(self, rows: Rows, at: int) -> None:
            super().__init__()
            self.rows = rows
            self.at = at

        @property
        def control(self) -> Rows:
            return self.rows

    def __init__(
        self, head: Sequence[str], right: Sequence[int] = (), gives_way: Sequence[int] = (), *,
        hidden: Sequence[int] = (), chooses: bool = True, empty: str = "", id: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(id=id)
        self._head = tuple(head)
        self._right = frozenset(right)
        self._gives_way = tuple(gives_way)
        self._hidden = frozenset(hidden)
        self._chooses = chooses
        self._empty = empty
        self._rows: Sequence[Row] = ()
        self._widths: list[int] = []
        self.chosen = 0

    @property
    def count(self) -> int:
        """How many lines there are."""
        return len(self._rows)

    def head(self, head: Sequence[str], right: Sequence[int], gives_way: Sequence[int]) -> None:
        """Other columns from the next rows on."""
        self._head, self._right, self._gives_way = tuple(head), frozenset(right), tuple(gives_way)

    def fill(self, rows: Sequence[Row], title: str | None = None) -> None:
        """Draws these rows from now on; the chosen line keeps its number."""
        if title is not None and self.border_title != title:
            self.border_title = title
        before, self._rows = self._rows, rows
        widths = [
            max([len(name), *(_width(row[at]) for row in rows)])
            for at, name in enumerate(self._head)
        ]
        chosen = max(0, min(self.chosen, len(rows) - 1))
        stays = len(before) == len(rows) > 0 and (widths, chosen) == (self._widths, self.chosen)
        self._widths, self.chosen = widths, chosen
        if not stays:
            self._fit()
            self.refresh()
            return
        for at, (old, new) in enumerate(zip(before, rows, strict=True)):
            if not all(map(_same, old, new)):
                self._refresh_row(at)

    def _refresh_row(self, at: int) -> None:
        if self.scroll_offset.y <= at < self.scroll_offset.y + self.size.height - 1:
            self.refresh_line(at + 1)

    def choose(self, at: int) -> None:
        """Chooses a line and tells so."""
        at = max(0, min(at, len(self._rows) - 1))
        if at == self.chosen or not self._chooses:
            return
        self.chosen = at
        self.scroll_to_region(Region(0, at, 1, 2), animate=False, force=True)
        self.refresh()
        self.post_message(self.Chosen(self, at))

    def action_move(self, by: int) -> None:
        """The next line, or by so many lines; a table without a choice scrolls."""
        if self._chooses:
            self.choose(self.chosen + by)
        else:
            self.scroll_relative(y=by, animate=False)

    def action_page(self, by: int) -> None:
        """A screenful."""
        self.action_move(by * max(1, self.size.height - 2))

    def on_click(self, event: Click) -> None:
        inside = event.get_content_offset(self)
        if inside is not None and inside.y > 0:
            self.choose(inside.y - 1 + self.scroll_offset.y)

    def on_resize(self, event: Resize) -> None:
        self._fit()

    def _fit(self) -> None:
        # No width: with one, the vertical bar's own column called for a horizontal bar, and whether
        # that stayed depended on which of the two came first
        self.virtual_size = Size(0, len(self._rows) + 1)

    def _columns(self, width: int) -> list[int]:
        """Those that fit; the last one may be cut down to a rest of it."""
        shown = [at for at in range(len(self._widths)) if at not in self._hidden]
        for at in self._gives_way if shown else ():
            if at in self._hidden:
                continue
            whole = sum(self._widths[column] + _SPARE for column in shown[:-1])
            if whole + min(self._widths[shown[-1]], _LEAST_OF_LAST) <= width:
                break
            shown.remove(at)
        return shown

    # -- drawing -------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        width, base = self.scrollable_content_region.width, self.visual_style.rich_style
        if y == 0:
            line = self._line([Text(name, draw.QUIET) for name in self._head], width)
            return self._strip(line, width, base)
        at = y - 1 + self.scroll_offset.y
        if at >= len(self._rows):
            blank = self._empty if not self._rows and y == 1 else ""
            return self._strip(Text(blank, draw.QUIET), width, base)
        if self._chooses and at == self.chosen:
            base = self.get_component_rich_style("rows--chosen")
        return self._strip(self._line(self._rows[at], width), width, base)

    def _line(self, row: Row, width: int) -> Text:
        line = Text(no_wrap=True, end="")
        gap = ""
        for at in self._columns(width):
            cell, pad = row[at], " " * (self._widths[at] - _width(row[at]))
            line.append(gap + pad if at in self._right else gap)
            line.append_text(cell) if isinstance(cell, Text) else line.append(cell)
            gap = " " * _SPARE if at in self._right else pad + " " * _SPARE
        line.truncate(max(0, width), overflow="ellipsis")
        return line

    def _strip(self, line: Text, width: int, base: Style) -> Strip:
        return draw.strip(line, width, base, self.app.console)


def _width(cell: str | Text) -> int:
    return cell.cell_len if isinstance(cell, Text) else cell_len(cell)


def _same(one: str | Text, other: str | Text) -> bool:
    if isinstance(one, Text) and isinstance(other, Text):
        return draw.same(one, other)
    return one == other
