"""SVG by hand: escaping, axes, paths. Every chart is drawn twice, wide and narrow.

No style attributes anywhere: the page's content security policy forbids them. Looks are classes.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from . import figures
from .plain import clean

Show = Callable[[float], str]


def esc(text: object, limit: int = 2000) -> str:
    """Text of the job as HTML text or attribute."""
    return html.escape(clean(text, limit), quote=True)


@dataclass(frozen=True)
class Axis:
    """From a value to 0..1 of the plot."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False

    def at(self, value: float) -> float:
        """Where a value lies, 0..1, cut at the ends."""
        low, high, here = self.low, self.high, value
        if self.log:
            low, high, here = math.log10(low), math.log10(high), math.log10(max(value, 1e-300))
        return min(1.0, max(0.0, (here - low) / (high - low or 1.0)))


@dataclass(frozen=True)
class Frame:
    """A drawing and the plot within it, in user units."""

    name: str
    width: int
    height: int
    left: int = 60
    right: int = 14
    top: int = 10
    bottom: int = 26
    ticks: int = 8

    def x(self, part: float) -> str:
        return n(self.left + part * (self.width - self.left - self.right))

    def y(self, part: float) -> str:
        return n(self.height - self.bottom - part * (self.height - self.top - self.bottom))


WIDE = Frame("wide", 960, 250)
NARROW = Frame("narrow", 400, 230, ticks=4)
FRAMES = (WIDE, NARROW)


def n(value: float) -> str:
    """A coordinate with one decimal."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def linear(high: float, show: Show, *, low: float = 0.0, many: int = 4) -> Axis:
    """An axis from `low` to a round value at or above `high`."""
    step = _round_step((high - low) / many if high > low else 1.0)
    count = max(1, math.ceil((high - low) / step - 1e-9))
    values = [low + at * step for at in range(count + 1)]
    return Axis(low, values[-1], tuple((v, show(v)) for v in values))


def _round_step(least: float) -> float:
    scale = 10.0 ** math.floor(math.log10(least))
    return next(m * scale for m in (1, 2, 2.5, 5, 10) if m * scale >= least * (1 - 1e-9))


def binary(high: float) -> Axis:
    """Bytes, with ticks at powers of two or halves of them."""
    step = 2.0 ** math.ceil(math.log2(max(high, 1024.0) / 4))
    count = max(1, math.ceil(high / step - 1e-9))
    return Axis(
        0.0, step * count, tuple((step * i, figures.size(step * i)) for i in range(count + 1))
    )


def shares() -> Axis:
    """0 to 100 %."""
    return Axis(0.0, 1.0, tuple((v, figures.share(v)) for v in (0.0, 0.25, 0.5, 0.75, 1.0)))


_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
            3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)  # fmt: skip


def moments(low: float, high: float, many: int) -> Axis:
    """Seconds of a run."""
    span = max(high - low, 1e-3)
    step = next((s for s in _SECONDS if span / s <= many), span / many)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    show = figures.clock if step >= 1 else figures.seconds
    return Axis(low, low + span, tuple((i * step, show(i * step)) for i in range(first, last + 1)))


def decades(low: float, high: float, show: Show) -> Axis:
    """A logarithmic axis over whole decades."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    last = max(last, first + 1)
    every = max(1, (last - first) // 6)
    ticks = tuple((10.0**e, show(10.0**e)) for e in range(first, last + 1, every))
    return Axis(10.0**first, 10.0**last, ticks, log=True)


def axes(frame: Frame, x: Axis, y: Axis, x_label: str = "", y_label: str = "") -> str:
    """Grid, ticks and labels."""
    parts = []
    for value, label in y.ticks:
        at = frame.y(y.at(value))
        parts.append(f'<path class="grid" d="M{frame.x(0)} {at}H{frame.x(1)}"/>')
        parts.append(_text(frame.left - 7, at, label, "end", dy=4))
    keep = max(1, math.ceil(len(x.ticks) / (frame.ticks + 2)))
    for value, label in x.ticks[::keep]:
        at = frame.x(x.at(value))
        parts.append(f'<path class="grid" d="M{at} {frame.y(0)}V{frame.y(1)}"/>')
        parts.append(_text(at, frame.height - frame.bottom + 16, label, "middle"))
    if x_label:
        parts.append(_text(frame.x(1), frame.height - frame.bottom - 6, x_label, "end", "axis"))
    if y_label:
        parts.append(_text(frame.left + 6, frame.top + 11, y_label, "start", "axis"))
    return "".join(parts)


def _text(x: object, y: object, text: str, anchor: str, kind: str = "tick", *, dy: int = 0) -> str:
    down = f' dy="{dy}"' if dy else ""
    return f'<text class="{kind}" x="{x}" y="{y}"{down} text-anchor="{anchor}">{esc(text)}</text>'


def label(x: str, y: str, text: str, anchor: str = "end") -> str:
    """Words within a plot."""
    return _text(x, y, text, anchor, "mark")


def line(frame: Frame, points: Sequence[tuple[float, float | None]], kind: str) -> str:
    """A path through points given as 0..1; a missing one breaks it."""
    drawn, up = [], True
    for x, y in points:
        if y is None:
            up = True
            continue
        drawn.append(f"{'M' if up else 'L'}{frame.x(x)} {frame.y(y)}")
        up = False
    return f'<path class="line {kind}" d="{"".join(drawn)}"/>' if drawn else ""


def band(frame: Frame, boxes: Iterable[tuple[float, float, float, float]], kind: str) -> str:
    """Boxes (x from, x to, y from, y to; 0..1) as one filled shape."""
    drawn = [
        f"M{frame.x(x0)} {frame.y(y0)}V{frame.y(y1)}H{frame.x(x1)}V{frame.y(y0)}z"
        for x0, x1, y0, y1 in boxes
        if y1 - y0 > 1e-4
    ]
    return f'<path class="fill {kind}" d="{"".join(drawn)}"/>' if drawn else ""


_SHAPES: dict[str, str] = {
    "circle": "m-{r} 0a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0z",
    "square": "m-{r} -{r}h{d}v{d}h-{d}z",
    "triangle": "m0 -{r}l{r} {d}h-{d}z",
    "diamond": "m0 -{r}l{r} {r}l-{r} {r}l-{r} -{r}z",
}


def point(x: str, y: str, shape: str, radius: float, kind: str) -> str:
    """A mark; shapes differ so that colour is not needed to tell them apart."""
    path = _SHAPES[shape].format(r=n(radius), d=n(2 * radius))
    return f'<path class="dot {kind}" d="M{x} {y}{path}"/>'


def svg(frame: Frame, ident: str, title: str, summary: str, body: str) -> str:
    """One drawing with its name and description for a screen reader."""
    key = f"{ident}-{frame.name}"
    plot = (
        f'data-l="{frame.left}" data-r="{frame.right}" data-t="{frame.top}" data-b="{frame.bottom}"'
    )
    return (
        f'<svg class="{frame.name}" viewBox="0 0 {frame.width} {frame.height}" role="img" '
        f'aria-labelledby="{key}-t {key}-d" {plot}><title id="{key}-t">{esc(title)}</title>'
        f'<desc id="{key}-d">{esc(summary)}</desc>{body}<path class="cross" d=""/></svg>'
    )
