"""What a terminal would show: pyte keeps the screen, we keep the lines that left it at the top."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import pyte
from pyte.screens import Char
from rich.segment import Segment
from rich.style import Style

HISTORY = 2000  # lines
# Private sequences that pyte would print as text: keyboard protocols, synchronised output
_UNKNOWN = re.compile(rb"\x1b\[[<>=][\d;]*[a-zA-Z]|\x1b\[\?[\d;]*\$p")
_NAMES = {"brown": "yellow", "brightbrown": "bright_yellow", "bfightmagenta": "bright_magenta"}
APPLICATION_CURSOR, BRACKETED_PASTE = 1 << 5, 2004 << 5  # modes as pyte numbers private ones
Line = Mapping[int, Char]


class _Screen(pyte.Screen):  # type: ignore[misc, no-any-unimported, unused-ignore]
    """Keeps what scrolls off, and answers the questions that programs ask a terminal."""

    def __init__(self, columns: int, rows: int, answer: Callable[[bytes], object]) -> None:
        self.history: deque[Line] = deque(maxlen=HISTORY)
        self._answer = answer
        super().__init__(columns, rows)

    def index(self) -> None:
        top, bottom = self.margins or (0, self.lines - 1)
        if self.cursor.y == bottom and top == 0:
            self.history.append(dict(self.buffer[0]))
        super().index()

    def write_process_input(self, data: str) -> None:
        self._answer(data.encode())


class Emulator:
    """A terminal of a size. `answer` gets what it replies to the job."""

    def __init__(self, columns: int, rows: int, answer: Callable[[bytes], object]) -> None:
        self._screen = _Screen(columns, rows, answer)
        self._stream = pyte.ByteStream(self._screen)

    def feed(self, data: bytes) -> None:
        """Output of the job; a sequence that pyte fails on costs only itself."""
        try:
            self._stream.feed(_UNKNOWN.sub(b"", data))
        except Exception:  # a parser of untrusted bytes: nothing in it may end the view
            self._stream = pyte.ByteStream(self._screen)

    def resize(self, columns: int, rows: int) -> None:
        """Another size; what stands on the screen stays."""
        self._screen.resize(rows, columns)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        return self._screen.columns, self._screen.lines

    @property
    def past(self) -> int:
        """Lines that have left the screen and are still kept."""
        return len(self._screen.history)

    @property
    def cursor(self) -> tuple[int, int] | None:
        """Column and row; None while the job hides it."""
        found = self._screen.cursor
        return None if found.hidden else (found.x, found.y)

    def has_mode(self, mode: int) -> bool:
        """A private mode that the job has switched on."""
        return mode in self._screen.mode

    def line(self, at: int, *, cursor: bool = False) -> list[Segment]:
        """A line of the screen, or with a negative number of the past (-1 the youngest)."""
        screen = self._screen
        cells: Line = screen.buffer[at] if at >= 0 else screen.history[at]
        place = self.cursor if cursor else None
        marked = place[0] if place is not None and place[1] == at else None
        return _segments(cells, screen.columns, marked)

    def text(self, at: int) -> str:
        """A line without its colours."""
        return "".join(part.text for part in self.line(at)).rstrip()

    @property
    def last(self) -> int:
        """The lowest line of the screen that holds anything."""
        filled = [at for at in range(self._screen.lines) if self.text(at)]
        return max(filled, default=-1)


def _segments(cells: Line, width: int, marked: int | None) -> list[Segment]:
    """Cells of one look together."""
    found: list[Segment] = []
    text, look = "", None
    for at in range(width):
        cell = cells.get(at)
        data = " " if cell is None else cell.data
        this: Any = None if cell is None else cell[1:]
        if at == marked:
            this = (*(this or ()), "cursor")
        if this != look and text:
            found.append(Segment(text, _style(look)))
            text = ""
        look = this
        text += data
    if text:
        found.append(Segment(text, _style(look)))
    return found


@lru_cache(maxsize=512)
def _style(look: tuple[Any, ...] | None) -> Style:
    if not look:
        return Style.null()
    if look == ("cursor",):
        return Style(reverse=True)
    fg, bg, bold, italics, underscore, strike, reverse, *rest = look
    return Style(
        color=_colour(fg), bgcolor=_colour(bg), bold=bold or None, italic=italics or None,
        underline=underscore or None, strike=strike or None,
        reverse=(reverse != ("cursor" in rest)) or None,
    )  # fmt: skip


def _colour(name: str) -> str | None:
    if name == "default":
        return None
    if re.fullmatch("[0-9a-f]{6}", name):
        return f"#{name}"
    name = _NAMES.get(name, name)
    return f"bright_{name[6:]}" if name.startswith("bright") and "_" not in name else name
