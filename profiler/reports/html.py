"""The report as one HTML file: no network, no fonts, charts as SVG, readable without scripts.

The words are those of the shared document (sections.py); charts and tiles draw the Report and the
Series that stand beside it. Everything from the job passes `esc`, and the page's content security
policy allows only the one style sheet and the one script in it, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..report import Report
from ..series import Series
from . import content, figures, html_charts, phases
from .document import Block, Bullets, Cell, Code, Document, Paragraph, Table
from .html_charts import Chart
from .html_svg import FRAMES, esc, n, svg
from .sections import SECTIONS, document

_HERE = Path(__file__).parent
CHARTS: dict[str, tuple[Callable[[Report, Series], Chart | None], ...]] = {
    "Phases over time": (html_charts.shares_over_time, html_charts.step_times),
    "Hotspots": (html_charts.roofline,),
    "Use of the machine": (html_charts.use, html_charts.memory, html_charts.power),
}
SHORT = 18  # characters
Shares = tuple[str, Mapping[str, float]]  # a run's name and its shares
_TIME = "Where the time goes"


def render(report: Report, series: Series | None = None) -> str:
    """The report of a run as a web page; with a series, charts of the run over time."""
    found = document(report)
    charts = {
        title: [chart for make in makers if (chart := make(report, series or Series()))]
        for title, makers in CHARTS.items()
    }
    body = "\n".join([_head(found, report), *_sections(found, report, charts)])
    title = f"{found.verdict}: {report.run.name or report.run.id}"
    return page(title, body, [chart for group in charts.values() for chart in group])


def write(title: str, found: Document, shares: Sequence[Shares] = ()) -> str:
    """A document as a web page; `shares` of several runs become bars over their table."""
    parts = [
        f'<header><h1><span class="chip">{esc(found.verdict)}</span> '
        f'<span class="headline">{esc(found.headline)}</span></h1>{_block(found.run)}</header>'
    ]
    for section in found.sections:
        above = [_bars(shares)] if section.title == _TIME and shares else []
        parts.append(_section(section.title, above + [_block(b) for b in section.blocks]))
    return page(title, "\n".join(parts), [])


def page(title: str, body: str, charts: list[Chart]) -> str:
    """The whole file around a body."""
    style, script = _file("html.css"), _file("html.js")
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; "
        f"script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<title>{esc(title)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>{style}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        '<footer>Made by accelprof.<button type="button" id="theme" hidden>Dark</button></footer>\n'
        f'<script type="application/json" id="marks">{_marks(charts)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _file(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _marks(charts: list[Chart]) -> str:
    """What the pointer reads out. `<` and `&` are escaped so that nothing can end the script."""
    found = {
        chart.ident: [
            [round(m.x, 4), None if m.y is None else round(m.y, 4), m.text] for m in chart.marks
        ]
        for chart in charts
    }
    text = json.dumps(found, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# -- head --------------------------------------------------------------------------------------


def _head(found: Document, report: Report) -> str:
    verdict = report.verdict
    share = phases.SHARE_OF_BOTTLENECK.get(verdict.bottleneck, "other")
    cause = (
        f' <span class="soft short">cause: <code>{esc(verdict.cause)}</code></span>'
        if verdict.cause
        else ""
    )
    tiles = "".join(
        f"<div><dt>{esc(name)}</dt><dd>{esc(value)}</dd>"
        + (f'<dd class="soft">{esc(more)}</dd>' if more else "")
        + "</div>"
        for name, value, more in _tiles(report)
    )
    return (
        f'<header><h1><span class="chip s-{share}">{esc(found.verdict)}</span> '
        f'<span class="headline">{esc(found.headline)}</span></h1>'
        f'{_block(found.run, cause)}<dl class="tiles">{tiles}</dl></header>'
    )


def _tiles(report: Report) -> Iterator[tuple[str, str, str]]:
    """Figures at a glance: (name, value, what goes with it); unknown ones are left out."""
    time, use, memory, cost = report.time, report.utilisation, report.memory, report.cost
    if time.step_ms.p50 is not None:
        p95 = time.step_ms.p95
        late = "" if p95 is None else f"p95 {figures.milliseconds(p95)}"
        yield "Step", figures.milliseconds(time.step_ms.p50), late
    if time.samples_per_s is not None:
        yield "Throughput", figures.number(time.samples_per_s), "samples/s"
    elif time.steps_per_s is not None:
        yield "Throughput", figures.number(time.steps_per_s), "steps/s"
    if report.verdict.speedup_limit and report.verdict.speedup_limit >= 1.01:
        yield "Limit removed", content.promise(report.verdict.speedup_limit), "as fast"
    yield (
        "Wall time",
        figures.seconds(report.run.wall_s),
        (f"{figures.count(time.steps_total, 'step')}" if time.steps_total else ""),
    )
    if use.get("device_busy") is not None:
        mfu = use.get("mfu")
        more = f"MFU {figures.share(mfu)}" if mfu is not None else ""
        yield "Device busy", figures.share(use["device_busy"]), more
    if memory.device_peak_bytes is not None:
        total = memory.device_total_bytes
        more = f"of {figures.size(total)}" if total else ""
        yield "Device memory", figures.size(memory.device_peak_bytes), more
    elif memory.host_peak_bytes is not None:
        yield "Host memory", figures.size(memory.host_peak_bytes), "peak of the job"
    if cost.usd is not None:
        more = f"{figures.usd(cost.lost_usd)} of it lost" if cost.lost_usd is not None else ""
        yield "Cost", figures.usd(cost.usd), more
    elif cost.lost_accelerator_s is not None:
        of = f"of {figures.seconds(cost.accelerator_s)}"
        yield "Time lost", figures.seconds(cost.lost_accelerator_s), of


# -- sections ----------------------------------------------------------------------------------


def _sections(found: Document, report: Report, charts: dict[str, list[Chart]]) -> Iterator[str]:
    """The sections in their order; charts may stand where the document says nothing."""
    written = {section.title: section.blocks for section in found.sections}
    for title, _ in SECTIONS:
        blocks = written.get(title, [])
        parts = [_figure(chart) for chart in charts.get(title, ())]
        if title == _TIME and report.time.shares:
            parts.append(_shares(report))
            blocks = [block for block in blocks if not isinstance(block, Table)]
        parts += [_block(block) for block in blocks]
        if parts:
            yield _section(title, parts)


def _section(title: str, parts: list[str]) -> str:
    ident = title.lower().replace(" ", "-")
    inside = "\n".join(parts)
    head = f'<section aria-labelledby="{ident}"><h2 id="{ident}">{esc(title)}</h2>'
    return f"{head}\n{inside}\n</section>"


def _bar(found: Sequence[tuple[str, float]]) -> str:
    """Shares as one bar, in the order given."""
    whole, at, boxes = sum(value for _, value in found) or 1.0, 0.0, []
    for name, value in found:
        wide = 1000 * value / whole
        boxes.append(
            f'<rect class="fill s-{name}" x="{n(at)}" y="0" width="{n(wide)}" height="34"/>'
        )
        at += wide
    said = ", ".join(f"{name} {figures.share(value)}" for name, value in found)
    return (
        '<svg class="bar" viewBox="0 0 1000 34" preserveAspectRatio="none" role="img" '
        f'aria-label="{esc(said)}">{"".join(boxes)}</svg>'
    )


def _bars(runs: Sequence[Shares]) -> str:
    """One bar a run, shares in the same order in all of them."""
    every = [[(name, s[name]) for name in phases.LOOKS if s.get(name, 0) >= 0.005] for _, s in runs]
    names = [name for name in phases.LOOKS if any(name == k for found in every for k, _ in found)]
    legend = "".join(f'<li><i class="key s-{name}"></i>{name}</li>' for name in names)
    bars = "".join(
        f"<p>{esc(run)}</p>{_bar(found)}" for (run, _), found in zip(runs, every, strict=True)
    )
    return f'<ul class="legend" aria-hidden="true">{legend}</ul><div class="bars">{bars}</div>'


def _shares(report: Report) -> str:
    """One bar of the whole, and the table that says the same."""
    found = phases.largest_first(report.time.shares, at_least=0.005)
    bar = _bar(found)
    rows = "".join(
        f'<tr><th scope="row"><i class="key s-{name}"></i>{esc(name)}</th>'
        f'<td class="right">{esc(figures.share(value))}</td>'
        f"<td>{esc(phases.LOOKS[name].meaning)}</td></tr>"
        for name, value in found
    )
    return (
        f'{bar}<table class="shares"><thead><tr><th scope="col">Share</th>'
        '<th scope="col" class="right">Of wall time</th><th scope="col">What it is</th></tr>'
        f"</thead><tbody>{rows}</tbody></table>"
    )


def _figure(chart: Chart) -> str:
    drawings = "".join(
        svg(frame, chart.ident, chart.title, chart.summary, chart.body(frame))
        for frame in (replace(frame, left=chart.left) for frame in FRAMES)
    )
    legend = "".join(
        f'<li><i class="key {esc(key.kind)}"></i>{esc(key.text)}</li>' for key in chart.legend
    )
    note = f'<p class="soft">{esc(chart.note)}</p>' if chart.note else ""
    table = _table(Table(chart.head, [tuple(row) for row in chart.rows], _right(chart)), "")
    return (
        f'<figure data-chart="{esc(chart.ident)}"><figcaption>{esc(chart.title)}</figcaption>'
        f'<ul class="legend" aria-hidden="true">{legend}</ul><div class="plot">{drawings}</div>'
        f'{note}<details><summary>As a table</summary><div class="scroll">{table}</div></details>'
        "</figure>"
    )


def _right(chart: Chart) -> tuple[int, ...]:
    first = 2 if chart.ident == "roofline" else 1
    last = len(chart.head) - (1 if chart.ident == "roofline" else 0)
    return tuple(range(first, last))


def _block(block: Block, after: str = "") -> str:
    if isinstance(block, Paragraph):
        return f"<p>{''.join(_part(part) for part in block.parts)}{after}</p>"
    if isinstance(block, Bullets):
        return f"<ul>{''.join(f'<li>{_cell(item)}</li>' for item in block.items)}</ul>"
    return _table(block, "stack")


def _part(part: Cell) -> str:
    """A piece of a line, with the spaces at its edges."""
    if isinstance(part, Code):
        return _cell(part)
    before = " " if part.startswith(" ") else ""
    return before + esc(part) + (" " if part.endswith(" ") else "")


def _cell(cell: Cell) -> str:
    return f"<code>{esc(cell.text)}</code>" if isinstance(cell, Code) else esc(cell)


def _short(cell: Cell) -> str:
    """Short cells stay on one line."""
    text = cell.text if isinstance(cell, Code) else cell
    return ' class="short"' if len(text) <= SHORT else ""


def _table(table: Table, kind: str) -> str:
    """A table; `stack`: on a narrow screen each cell stands under its column's name."""
    right = [' class="right"' if at in table.right else "" for at in range(len(table.head))]
    head = "".join(
        f'<th scope="col"{side}>{esc(name)}</th>'
        for name, side in zip(table.head, right, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td{side or _short(cell)} data-name="{esc(name)}">{_cell(cell)}</td>'
            for name, side, cell in zip(table.head, right, row, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    chosen = f' class="{kind}"' if kind else ""
    return f"<table{chosen}><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
