"""The charts of the HTML report, one function each: what to draw, what to read out, the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from ..report import Report
from ..series import Line, OpPoint, Roof, Series, Stretch
from . import figures, phases
from . import html_svg as draw
from .html_svg import Frame
from .plain import clean

_T = TypeVar("_T")
TABLE_ROWS = 30
_SHAPES = {"compute": "circle", "memory": "square", "latency": "triangle", "unknown": "diamond"}


class Mark(NamedTuple):
    """Where the pointer reads something out; `y` is None for a whole moment. 0..1 of the plot."""

    x: float
    y: float | None
    text: str


class Key(NamedTuple):
    """An entry of the legend: a class for its swatch, and the words."""

    kind: str
    text: str


@dataclass(frozen=True)
class Chart:
    ident: str
    title: str
    summary: str
    body: Callable[[Frame], str]
    marks: list[Mark]
    legend: list[Key]
    head: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    note: str = ""
    left: int = 72  # room for the labels of the y axis; the same where time runs to the right


def _room(axis: draw.Axis) -> int:
    return max(72, 14 + round(7.4 * max(len(text) for _, text in axis.ticks)))


def shares_over_time(report: Report, series: Series) -> Chart | None:
    """Stacked shares of wall time, a column a stretch of steps."""
    found = [s for s in _stretches(report, series) if s.shares]
    if len(found) < 2:
        return None
    names = [
        name for name in phases.LOOKS
        if max(s.shares.get(name, 0.0) for s in found) >= 0.005
    ]  # fmt: skip
    high = max(found[-1].to_s, series.length_s if series.stretches else 0.0)

    def body(frame: Frame) -> str:
        x, y = draw.moments(0.0, high, frame.ticks), draw.shares()
        parts, base = [draw.axes(frame, x, y)], [0.0] * len(found)
        for name in names:
            tops = [b + s.shares.get(name, 0.0) for b, s in zip(base, found, strict=True)]
            boxes = [
                (x.at(s.from_s), x.at(s.to_s), low, min(1.0, top))
                for s, low, top in zip(found, base, tops, strict=True)
            ]
            parts.append(draw.band(frame, boxes, f"s-{name}"))
            base = tops
        return "".join(parts)

    marks = [
        Mark(_middle(s) / high, None, "\n".join([_span(s), *_share_lines(s, names)]))
        for s in found
    ]  # fmt: skip
    top = phases.largest_first(report.time.shares)[:1]
    most = f" Over all, {top[0][0]} is the largest: {figures.share(top[0][1])}." if top else ""
    return Chart(
        "shares", "Shares of wall time over the run",
        f"Stacked shares of {len(found)} stretches of steps over {figures.seconds(high)}.{most}",
        body, marks, [Key(f"s-{name}", name) for name in names], ("At", *names),
        [(figures.clock(s.from_s), *(figures.share(s.shares.get(name, 0.0)) for name in names))
         for s in _thin(found)],
    )  # fmt: skip


def step_times(report: Report, series: Series) -> Chart | None:
    """p50 and p95 of the steps over time; the longest steps marked with what made them long."""
    found = [s for s in series.stretches if s.p50_ms is not None]
    if len(found) < 2:
        return None
    highest = sorted(s.p95_ms or 0.0 for s in found)
    ceiling = highest[int(0.95 * (len(highest) - 1))] * 1.15
    high = max(series.length_s, found[-1].to_s)
    y = draw.linear(ceiling / 1e3, figures.seconds)

    def body(frame: Frame) -> str:
        x = draw.moments(0.0, high, frame.ticks)
        between = [
            (x.at(s.from_s), x.at(s.to_s), y.at((s.p50_ms or 0) / 1e3), y.at((s.p95_ms or 0) / 1e3))
            for s in found
        ]
        usual = _edges(found, x, [y.at((s.p50_ms or 0) / 1e3) for s in found])
        late = _edges(found, x, [y.at((s.p95_ms or 0) / 1e3) for s in found])
        dots = "".join(
            draw.point(frame.x(x.at(o.at_s)), frame.y(y.at(o.ms / 1e3)),
                       "triangle" if o.ms / 1e3 > y.high else "circle", 4, "outlier")
            for o in series.outliers
        )  # fmt: skip
        drawn = draw.band(frame, between, "spread") + draw.line(frame, late, "late")
        return draw.axes(frame, x, y) + drawn + draw.line(frame, usual, "usual") + dots

    marks = [Mark(_middle(s) / high, None, "\n".join(_step_lines(s))) for s in found]
    marks += [
        Mark(o.at_s / high, y.at(o.ms / 1e3), _outlier_text(o.step, o.ms, o.phase, o.phase_ms))
        for o in series.outliers
    ]  # fmt: skip
    legend = [Key("k-usual", "p50"), Key("k-spread", "p50 to p95")]
    if series.outliers:
        legend.append(Key("k-outlier", "outlier (at least twice the usual step)"))
    time = report.time.step_ms
    above = any(o.ms / 1e3 > y.high for o in series.outliers)
    return Chart(
        "steps", "Time of a step over the run",
        f"p50 {figures.milliseconds(time.p50)}"
        + ("" if time.p95 is None else f", p95 {figures.milliseconds(time.p95)}")
        + f" of the steady steps; {figures.count(len(series.outliers), 'outlier')} marked.",
        body, marks, legend, ("At", "Steps", "p50", "p95"),
        [(figures.clock(s.from_s), str(s.steps), figures.milliseconds(s.p50_ms),
          figures.milliseconds(s.p95_ms)) for s in _thin(found)],
        "Triangles at the top edge stand for steps beyond the scale." if above else "",
        _room(y),
    )  # fmt: skip


def use(report: Report, series: Series) -> Chart | None:
    """Devices and CPUs busy."""
    return _lines(
        "use", "Devices and CPUs in use", series.use, series.length_s, draw.shares(), figures.share
    )


def memory(report: Report, series: Series) -> Chart | None:
    """Memory in use, of devices, host and job."""
    high = max((v for line in series.memory for _, v in line.points if v is not None), default=0.0)
    limits = [f"{name}: {figures.size(total)}" for name, total in series.memory_limits.items()]
    return _lines(
        "memory", "Memory in use", series.memory, series.length_s, draw.binary(high), figures.size,
        note=f"In all {'; '.join(limits)}." if limits else "",
    )  # fmt: skip


def power(report: Report, series: Series) -> Chart | None:
    """Watts of each device."""
    high = max((v for line in series.power for _, v in line.points if v is not None), default=0.0)
    axis = draw.linear(max(high, 1.0), figures.power)
    return _lines("power", "Power", series.power, series.length_s, axis, figures.power)


def _lines(  # noqa: PLR0917
    ident: str, title: str, lines: Sequence[Line], length_s: float, y: draw.Axis,
    show: Callable[[float | None], str], *, note: str = "",
) -> Chart | None:  # fmt: skip
    if not lines or length_s <= 0 or max(len(line.points) for line in lines) < 2:
        return None

    def body(frame: Frame) -> str:
        x = draw.moments(0.0, length_s, frame.ticks)
        drawn = [
            draw.line(frame, [(x.at(t), None if v is None else y.at(v)) for t, v in line.points],
                      f"l{at}")
            for at, line in enumerate(lines)
        ]  # fmt: skip
        return draw.axes(frame, x, y) + "".join(drawn)

    times = sorted({t for line in lines for t, _ in line.points})
    values = [dict(line.points) for line in lines]
    marks = [
        Mark(min(1.0, t / length_s), None, "\n".join(
            [f"at {figures.clock(t)}", *(
                f"{line.name}: {show(found[t])}"
                for line, found in zip(lines, values, strict=True) if t in found
            )]
        ))
        for t in times
    ]  # fmt: skip
    ends = "; ".join(f"{line.name} {_range(line, show)}" for line in lines)
    return Chart(
        ident, title, f"{ends}.", body, marks,
        [Key(f"k-l{at}", line.name) for at, line in enumerate(lines)],
        ("At", *(line.name for line in lines)),
        [(figures.clock(t), *(show(found.get(t)) for found in values)) for t in _thin(times)],
        note, _room(y),
    )  # fmt: skip


def _range(line: Line, show: Callable[[float | None], str]) -> str:
    values = [v for _, v in line.points if v is not None]
    low, high = show(min(values)), show(max(values))
    return low if low == high else f"{low} to {high}"


def roofline(report: Report, series: Series) -> Chart | None:
    """Captured operators under this machine's ceilings."""
    roof, ops = series.roof, series.ops
    if roof is None or not ops or not roof.flops:
        return None
    rates = _plateaus(ops, roof)
    ridge = max(rates.values()) / roof.bytes_per_s
    x = draw.decades(
        min(ridge / 10, *(o.intensity for o in ops)), max(ridge * 2, *(o.intensity for o in ops)),
        figures.number,
    )  # fmt: skip
    low = max(min(o.flops_per_s for o in ops), max(rates.values()) * 1e-6)
    y = draw.decades(low, max(*rates.values(), *(o.flops_per_s for o in ops)), figures.arithmetic)

    def body(frame: Frame) -> str:
        dots = [
            draw.point(frame.x(x.at(o.intensity)), frame.y(y.at(o.flops_per_s)), _SHAPES[o.bound],
                       3 + 11 * o.share**0.5, f"b-{o.bound}")
            for o in reversed(ops)
        ]  # fmt: skip
        grid = draw.axes(frame, x, y, "FLOPs a byte")
        return grid + _roof(frame, x, y, rates, roof) + "".join(dots)

    kinds = [kind for kind in _SHAPES if any(o.bound == kind for o in ops)]
    return Chart(
        "roofline", "Operators under this machine's ceilings",
        f"{figures.count(len(ops), 'operator')} by FLOPs a byte and rate; ceilings "
        f"({clean(roof.source, 40)}): "
        + ", ".join(f"{name} {figures.arithmetic(rate)}" for name, rate in rates.items())
        + f", {figures.bandwidth(roof.bytes_per_s)}.",
        body,
        [Mark(x.at(o.intensity), y.at(o.flops_per_s), "\n".join(_op_lines(o))) for o in ops],
        [Key(f"k-{kind}", f"limited by {kind}") for kind in kinds],
        ("Operator", "Phase", "Share", "FLOPs a byte", "Rate", "Limited by"),
        [(o.name, o.phase, figures.share(o.share), figures.number(o.intensity),
          figures.arithmetic(o.flops_per_s), o.bound) for o in ops[:TABLE_ROWS]],
        "The larger a mark, the more of the captured time.",
        _room(y),
    )  # fmt: skip


def _plateaus(ops: Sequence[OpPoint], roof: Roof) -> dict[str, float]:
    """The ceilings of the precisions that ran; of all known when none of them is."""
    ran = {o.dtype for o in ops}
    return {k: v for k, v in roof.flops.items() if k in ran} or dict(roof.flops)


def _roof(frame: Frame, x: draw.Axis, y: draw.Axis, rates: dict[str, float], roof: Roof) -> str:
    parts = []
    for name, rate in rates.items():
        ridge = rate / roof.bytes_per_s
        start = max(x.low, y.low / roof.bytes_per_s)
        points = [(start, start * roof.bytes_per_s), (ridge, rate), (x.high, rate)]
        parts.append(draw.line(frame, [(x.at(a), y.at(b)) for a, b in points], "roof"))
        text = f"{name} {figures.arithmetic(rate)}"
        parts.append(draw.label(frame.x(1), f"{float(frame.y(y.at(rate))) - 5:.1f}", text))
    return "".join(parts)


def _op_lines(op: OpPoint) -> list[str]:
    where = f"({op.phase}, {op.dtype})" if op.dtype else f"({op.phase})"
    return [
        f"{clean(op.name, 100)} {clean(where, 60)}",
        f"{figures.share(op.share)} of captured time, {figures.count(op.calls, 'call')}",
        f"{figures.arithmetic(op.flops_per_s)}, {figures.number(op.intensity)} FLOPs a byte",
        f"limited by {op.bound}",
    ]


# -- pieces ------------------------------------------------------------------------------------


def _stretches(report: Report, series: Series) -> Sequence[Stretch]:
    """The fine series; without one the windows that the verdict was given for."""
    if series.stretches:
        return series.stretches
    return [Stretch(w.from_s, w.to_s, w.shares) for w in report.phases_over_time]


def _middle(stretch: Stretch) -> float:
    return (stretch.from_s + stretch.to_s) / 2


def _edges(
    found: Sequence[Stretch], x: draw.Axis, heights: Sequence[float]
) -> list[tuple[float, float | None]]:
    """A line along the stretches, broken where steps pause or were captured."""
    points: list[tuple[float, float | None]] = []
    pause = max(s.to_s - s.from_s for s in found) / 2
    for at, (stretch, height) in enumerate(zip(found, heights, strict=True)):
        if at and stretch.from_s - found[at - 1].to_s > pause:
            points.append((x.at(stretch.from_s), None))
        points += [(x.at(stretch.from_s), height), (x.at(stretch.to_s), height)]
    return points


def _span(stretch: Stretch) -> str:
    steps = f", {figures.count(stretch.steps, 'step')}" if stretch.steps else ""
    begin, end = figures.clock(stretch.from_s), figures.clock(stretch.to_s)
    return f"at {begin}{steps}" if begin == end else f"{begin} to {end}{steps}"


def _share_lines(stretch: Stretch, names: Sequence[str]) -> list[str]:
    found = [(n, v) for n, v in phases.largest_first(stretch.shares, at_least=0.005) if n in names]
    return [f"{name} {figures.share(value)}" for name, value in found]


def _step_lines(stretch: Stretch) -> list[str]:
    p50, p95 = figures.milliseconds(stretch.p50_ms), figures.milliseconds(stretch.p95_ms)
    return [_span(stretch), f"p50 {p50}", f"p95 {p95}"]


def _outlier_text(step: int, ms: float, phase: str | None, phase_ms: float | None) -> str:
    text = f"step {step}: {figures.milliseconds(ms)}"
    return f"{text}\nmost of it {phase}: {figures.milliseconds(phase_ms)}" if phase else text


def _thin(rows: Sequence[_T]) -> Sequence[_T]:
    every = max(1, -(-len(rows) // TABLE_ROWS))
    return rows[::every]
