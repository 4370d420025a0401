"""A comparison as a document, for the same writers as the report: text, Markdown, HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..reports import content, figures
from ..reports.document import Block, Bullets, Cell, Code, Document, Paragraph, Section, Table
from ..reports.plain import clean
from .model import Change, Comparison, Measure, Metric

_NAMES = {
    "samples_per_s": "throughput", "steps_per_s": "step rate", "step_ms_p50": "step, p50",
    "step_ms_p95": "step, p95", "epoch_s": "epoch", "device_busy": "device busy", "mfu": "MFU",
    "cpu_job_cores": "CPU of the job", "device_peak_bytes": "device memory, peak",
    "host_peak_bytes": "host memory, peak", "power_w": "power", "energy_j": "energy",
    "wall_s": "wall time", "usd": "cost", "largest_batch": "largest batch",
    "peak_bytes": "device memory, peak", "usd_per_epoch": "cost of an epoch",
    "usd_run": "cost of the run", "adapting_s": "adapting the code",
}  # fmt: skip
_SHOW: dict[str, Callable[[float | None], str]] = {
    "share": figures.share, "ms": figures.milliseconds, "s": figures.seconds,
    "bytes": figures.size, "W": figures.power, "J": figures.energy, "USD": figures.usd,
    "samples/s": lambda v: figures.rate(v, "samples"),
    "steps/s": lambda v: figures.rate(v, "steps"),
    "cores": lambda v: figures.UNKNOWN if v is None else (
        "1 core" if figures.number(v) == "1" else f"{figures.number(v)} cores"),
}  # fmt: skip
MOST_CHANGES = 12


def document(found: Comparison) -> Document:
    """The comparison for people."""
    sections = (
        ("The eight measures", _eight(found)),
        ("What changed", _changes(found)),
        ("What it did", _metrics(found, shares=False)),
        ("Where the time goes", _metrics(found, shares=True)),
        ("Verdicts", _verdicts(found)),
        ("Mind", iter([Bullets([clean(note, 300) for note in found.notes])])),
    )
    made = [Section(title, list(blocks)) for title, blocks in sections]
    return Document(
        f"{figures.count(len(found.runs), 'run')} compared", clean(found.headline, 600),
        _runs(found), [section for section in made if section.blocks],
    )  # fmt: skip


def shares(found: Comparison) -> list[tuple[str, dict[str, float]]]:
    """The shares of each run, by the name that heads its column."""
    parts = [m for m in found.metrics if m.name.startswith("share_")]
    return [
        (name, {m.name.removeprefix("share_"): v for m in parts if (v := m.values[at]) is not None})
        for at, name in enumerate(_names(found))
    ]


def _runs(found: Comparison) -> Paragraph:
    parts: list[Cell] = ["Runs: "]
    for at, run in enumerate(found.runs):
        parts += [", " if at else "", Code(clean(run, 80))]
    return Paragraph((*parts, "."))


def _names(found: Comparison) -> list[str]:
    """Heads of the columns; long ids are told by the line above the tables."""
    short = [clean(name, 24) for name in found.names]
    return short if len(set(short)) == len(short) else [f"run {at + 1}" for at in range(len(short))]


def _changes(found: Comparison) -> Iterator[Block]:
    changed = found.changed
    groups: tuple[tuple[str, Sequence[Change]], ...] = (
        ("settings", changed.settings), ("arguments", changed.arguments),
        ("git", changed.git), ("hardware", changed.hardware),
        ("environment", changed.environment),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = [
        (
            group,
            Code(clean(change.name, 60)),
            *(_value(_brief(change.name, v)) for v in change.values),
        )
        for group, changes in groups
        for change in changes[:MOST_CHANGES]
    ]
    if rows:
        yield Table(("Of", "What", *_names(found)), rows)
    else:
        yield Paragraph(("Nothing that was recorded: arguments, settings, code, machine.",))
    if changed.git_stat:
        yield Paragraph((f"Between the commits: {clean(changed.git_stat, 120)}.",))


def _brief(name: str, value: Any) -> Any:
    """A commit as people write it."""
    return value[:12] if name == "commit" and isinstance(value, str) else value


def _value(value: Any) -> Cell:
    if value is None:
        return figures.UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    return Code(clean(value, 60)) if str(value) else "empty"


def _metrics(found: Comparison, *, shares: bool) -> Iterator[Block]:
    rows: list[tuple[Cell, ...]] = []
    for metric in found.metrics:
        if metric.name.startswith("share_") != shares:
            continue
        effects = [_effect(metric, at) for at in range(len(metric.against_first))]
        name = metric.name.removeprefix("share_")
        rows.append((_NAMES.get(name, name), *(_shown(metric, v) for v in metric.values), *effects))
    if rows:
        names = _names(found)
        against = [f"{name} / first" for name in names[1:]] if len(names) > 2 else ["change"]
        columns = len(names) + len(against)
        yield Table(("", *names, *against), rows, right=tuple(range(1, columns + 1)))


def _shown(metric: Metric | Measure, value: float | None) -> str:
    show = _SHOW.get(metric.unit, figures.number)
    return show(value)


def _effect(metric: Metric, at: int) -> str:
    against = metric.against_first[at]
    if metric.name.startswith("share_"):
        if against.difference is None:
            return figures.UNKNOWN
        points = f"{against.difference * 100:+.1f} points"
        return points + {True: "", False: ", noise", None: ""}[against.significant]
    if against.ratio is None:
        return figures.UNKNOWN
    text = figures.times(against.ratio)
    if against.significant is False:
        return f"{text}, noise"
    if against.interval is not None:
        low, high = against.interval
        text += f" ({low:.2f} to {high:.2f})"
    return text


def _verdicts(found: Comparison) -> Iterator[Block]:
    rows: list[tuple[Cell, ...]] = [
        (name, v.bottleneck, v.confidence, Code(clean(v.cause, 40)) if v.cause else
         figures.UNKNOWN, clean(content.without_name(v.headline, v.bottleneck), 200))
        for name, v in zip(_names(found), found.verdicts, strict=True)
    ]  # fmt: skip
    yield Table(("Run", "Bottleneck", "Confidence", "Cause", "In a sentence"), rows)
    moved = [f for f in found.findings if len(set(f.values)) > 1]
    if moved:
        head = ("Finding", *_names(found))
        cells: list[tuple[Cell, ...]] = [
            (Code(clean(f.name, 40)), *("yes" if v else "no" for v in f.values)) for f in moved
        ]
        yield Table(head, cells)


def _eight(found: Comparison) -> Iterator[Block]:
    if found.table is None:
        return
    rows: list[tuple[Cell, ...]] = []
    for measure in found.table:
        cells = ["unknown" if v is None else _shown(measure, v) for v in measure.values]
        rows.append((_NAMES.get(measure.name, measure.unit), *cells))
    yield Table(("", *_names(found)), rows)
    known = {
        f"{_NAMES[m.name]}: {'unknown, ' if value is None else ''}{clean(how, 160)}": None
        for m in found.table
        for value, how in zip(m.values, m.how, strict=True)
        if how
    }
    if known:
        yield Bullets(list(known))
