"""The sections of the written report, one function each, in the order of SECTIONS."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Iterator
from typing import Any

from ..report import Hotspot, Report, Window
from . import content, figures, phases
from .document import Block, Bullets, Cell, Code, Document, Paragraph, Section, Table
from .plain import clean

MOST_ROWS = 5  # of any list whose tail matters little
MOST_STRETCHES = 8
MOST_JOBS = 20
BAR_CELLS = 20
MOST_FACTS = 12  # of the environment
TEXT_LIMIT = 400


def document(report: Report) -> Document:
    """The whole report. Sections with nothing to say are left out."""
    verdict = report.verdict
    name = verdict.bottleneck[:1].upper() + verdict.bottleneck[1:]
    found = [Section(title, list(make(report))) for title, make in SECTIONS]
    return Document(
        f"{name}, {verdict.confidence} confidence",
        content.headline(report),
        _run(report),
        [section for section in found if section.blocks],
    )


def _run(report: Report) -> Paragraph:
    run = report.run
    command = shlex.join(run.command) if run.command else "?"
    parts: list[Cell] = ["Run ", Code(clean(run.id, 80)), ": ", Code(clean(command, 160))]
    if run.host:
        parts += [" on ", Code(clean(run.host, 60))]
    parts.append(f", {figures.moment(run.started_at)}, {content.ending(report)}.")
    return Paragraph(tuple(parts))


def _changes(report: Report) -> Iterator[Block]:
    rows: list[tuple[Cell, ...]] = []
    above = ""
    for at, change in enumerate(content.changes(report)[: MOST_ROWS + 2], 1):
        known = change.worth or ("as above" if change.finding.id == above else figures.UNKNOWN)
        rows.append((str(at), _prose(change.text), known, Code(change.finding.id)))
        above = change.finding.id if change.worth or change.finding.id == above else ""
    if rows:
        yield Table(("#", "Change", "Worth", "Finding"), rows)


def _jobs(report: Report) -> Iterator[Block]:
    rows: list[tuple[Cell, ...]] = [
        (
            Code(clean(job.name, 40)),
            clean(job.user, 20),
            figures.moment(job.started_at),
            figures.seconds(job.wall_s) if job.ended_at else "running",
            figures.number(job.cpu_cores),
            figures.size(job.host_peak_bytes),
        )
        for job in report.jobs[:MOST_JOBS]
    ]
    if rows:
        yield Table(("Job", "User", "Started", "Took", "Cores", "Memory"), rows, right=(3, 4, 5))
    if len(report.jobs) > MOST_JOBS:
        yield Paragraph((f"{len(report.jobs) - MOST_JOBS} older jobs in the JSON report.",))


def _evidence(report: Report) -> Iterator[Block]:
    items: list[Cell] = [_prose(item.text) for item in report.verdict.evidence]
    items += [f"But: {_prose(text)}" for text in report.verdict.against]
    if items:
        yield Bullets(items[: MOST_ROWS + 2])


def _time(report: Report) -> Iterator[Block]:
    time = report.time
    rows: list[tuple[Cell, ...]] = []
    for name, value in phases.largest_first(time.shares, at_least=0.005):
        bar = "█" * round(value * BAR_CELLS) or "▏"
        rows.append((name, figures.share(value), bar, phases.LOOKS[name].meaning))
    if rows:
        yield Table(("Share", "Of wall time", "", "What it is"), rows, right=(1,))
    yield Paragraph((f"Steps: {', '.join(content.steps(report))}.{_rests_on(report)}",))
    if unseen := content.not_observed(report):
        yield Paragraph((f"Not observed by any hook, so not known to be 0: {unseen}.",))


def _rests_on(report: Report) -> str:
    time = report.time
    if not time.steps:
        return ""
    text = f" Mean {figures.milliseconds(time.step_ms.mean)}"
    if time.epoch_s is not None:
        text += f", an epoch takes {figures.seconds(time.epoch_s)}"
    if time.warmup_steps:
        text += f"; {figures.count(time.warmup_steps, 'warm-up step')} left out"
    return text + "."


def _over_time(report: Report) -> Iterator[Block]:
    found = report.phases_over_time
    stretches = [list(group) for _, group in itertools.groupby(found, lambda w: w.bottleneck)]
    if len(stretches) == 1 and len(found) > 1:
        yield Paragraph((f"{_stretch_name(found)} in all {len(found)} windows.",))
    elif len(stretches) > 1:
        rows = [_stretch(windows) for windows in stretches[:MOST_STRETCHES]]
        yield Table(("From", "To", "Bottleneck", "Windows", "Its share"), rows, right=(0, 1, 3))
        left = len(stretches) - MOST_STRETCHES
        if left > 0:
            yield Paragraph((f"{figures.count(left, 'more stretch', 'more stretches')}.",))


def _stretch_name(windows: list[Window]) -> str:
    name = windows[0].bottleneck
    return name[:1].upper() + name[1:]


def _stretch(windows: list[Window]) -> tuple[Cell, ...]:
    """Windows in a row with one bottleneck; its share as a range, never an average of ours."""
    bottleneck = windows[0].bottleneck
    share = phases.SHARE_OF_BOTTLENECK.get(bottleneck)
    values = [w.shares[share] for w in windows if share in w.shares] if share else []
    low, high = (figures.share(pick(values)) if values else "" for pick in (min, max))
    ranged = f"{share} {low}" if low == high else f"{share} {low} to {high}"
    return (
        figures.clock(windows[0].from_s),
        figures.clock(windows[-1].to_s),
        bottleneck,
        str(len(windows)),
        ranged if values else figures.UNKNOWN,
    )


def _hotspots(report: Report) -> Iterator[Block]:
    spots = report.hotspots
    places = [("input", spot) for spot in spots.input[:MOST_ROWS]]
    places += [("host", spot) for spot in spots.host[:MOST_ROWS]]
    if places:
        rows = [_place(phase, spot) for phase, spot in places]
        yield Table(("Where", "Of", "Share"), rows, right=(2,))
    if spots.ops:
        ops: list[tuple[Cell, ...]] = [
            (Code(clean(op.name, 80)), figures.share(op.share), op.bound,
             figures.share(op.efficiency))
            for op in spots.ops[:MOST_ROWS]
        ]  # fmt: skip
        head = ("Operator", "Share of captured time", "Limited by", "Of its ceiling")
        yield Table(head, ops, right=(1, 3))


def _place(phase: str, spot: Hotspot) -> tuple[Cell, ...]:
    return Code(clean(spot.where, 160)), phase, figures.share(spot.share)


def _findings(report: Report) -> Iterator[Block]:
    rows: list[tuple[Cell, ...]] = []
    for finding in content.by_worth(report.findings):
        seen = "; ".join(_prose(item.text) for item in finding.evidence[:2])
        rows.append((finding.severity, Code(finding.id), _prose(finding.title), seen))
    if rows:
        yield Table(("Severity", "Finding", "What", "Seen in"), rows)


def _machine(report: Report) -> Iterator[Block]:
    memory = report.memory
    found = [
        f"{label} {show(value)}"
        for key, (label, show) in _UTILISATION.items()
        if (value := report.utilisation.get(key)) is not None
    ]
    if memory.device_peak_bytes is not None:
        total = memory.device_total_bytes
        of = f" of {figures.size(total)}" if total else ""
        found.append(f"device memory at most {figures.size(memory.device_peak_bytes)}{of}")
    if memory.host_peak_bytes is not None:
        found.append(f"the job's host memory at most {figures.size(memory.host_peak_bytes)}")
    if memory.growth_bytes_per_step:
        found.append(f"growing by {figures.size(memory.growth_bytes_per_step)} a step")
    if memory.largest_batch and memory.largest_batch.get("value") is not None:
        how = memory.largest_batch.get("method") or "estimate"
        found.append(_prose(f"largest batch that fits {memory.largest_batch['value']} ({how})"))
    if found:
        text = "; ".join(found)
        yield Paragraph((text[0].upper() + text[1:] + ".",))
    if len(report.ranks) > 1:
        yield from _ranks(report)


def _cost(report: Report) -> Iterator[Block]:
    parts = content.cost(report)
    if parts:
        text = "; ".join(parts)
        yield Paragraph((text[0].upper() + text[1:] + ".",))
    rows: list[tuple[Cell, ...]] = [
        (loss.share, figures.seconds(loss.accelerator_s), figures.usd(loss.usd),
         figures.energy(loss.energy_j))
        for loss in report.cost.losses
    ]  # fmt: skip
    if rows:
        head = ("Lost to", "Accelerator time", "Price", "Energy while waiting")
        yield Table(head, rows, right=(1, 2, 3))


_UTILISATION: dict[str, tuple[str, Callable[[float | None], str]]] = {
    "device_busy": ("device busy", figures.share),
    "sm": ("SMs active", figures.share),
    "tensor": ("tensor cores active", figures.share),
    "memory_bandwidth": ("memory bandwidth used", figures.share),
    "mfu": ("model FLOPs of the peak (MFU)", figures.share),
    "cpu_job": ("the job's part of all CPUs", figures.share),
    "cpu_host": ("the host's CPUs busy", figures.share),
    "cpu_power_w": ("power of the CPU packages", figures.power),
    "power_w": ("power", figures.power),
    "energy_j": ("energy", figures.energy),
}


_RANK_COLUMNS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("rank", "rank", str),
    ("host", "host", lambda value: clean(value, 30)),
    ("steps", "steps", figures.count),
    ("step_ms", "step", figures.milliseconds),
    ("own_ms", "its own work", figures.milliseconds),
    ("wait_ms", "waits", figures.milliseconds),
    ("slowest_share", "slowest in", figures.share),
    ("input_share", "input", figures.share),
    ("clock_ahead_ms", "clock", lambda value: f"{value:+.1f} ms"),
)
MOST_RANKS = 16


def _ranks(report: Report) -> Iterator[Block]:
    """The ranks; of many those that work longest a step, for which the others wait."""
    shown = report.ranks
    if len(shown) > MOST_RANKS:
        shown = sorted(shown, key=lambda r: -(r.get("own_ms") or r.get("step_ms") or 0.0))
        shown = shown[:MOST_RANKS]
        total = figures.count(len(report.ranks))
        yield Paragraph((f"The {MOST_RANKS} of {total} ranks that work longest a step:",))
    columns = [one for one in _RANK_COLUMNS if any(r.get(one[0]) is not None for r in shown)]
    rows: list[tuple[Cell, ...]] = [
        tuple(figures.UNKNOWN if r.get(key) is None else show(r[key]) for key, _, show in columns)
        for r in shown
    ]
    yield Table(tuple(name for _, name, _ in columns), rows)


def _environment(report: Report) -> Iterator[Block]:
    run = report.run
    rows: list[tuple[Cell, ...]] = [_device(report, at) for at in range(len(report.devices))]
    known = [(k, v) for k, v in run.environment.items() if _simple(v)][:MOST_FACTS]
    if known:
        text = ", ".join(f"{clean(key, 40)} {clean(value, 80)}" for key, value in known)
        rows.append(("software", clean(text, 600)))
    if commit := run.git.get("commit"):
        dirty = " with changes not committed" if run.git.get("dirty") else ""
        rows.append(("git", clean(commit, 40) + dirty))
    if run.cwd:
        rows.append(("folder", Code(clean(run.cwd, 160))))
    if run.tags:
        text = ", ".join(f"{clean(k, 40)}={clean(v, 80)}" for k, v in run.tags.items())
        rows.append(("tags", Code(clean(text, TEXT_LIMIT))))
    if run.note:
        rows.append(("note", _prose(run.note)))
    if rows:
        yield Table(("What", "Value"), rows)


def _simple(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""


def _device(report: Report, at: int) -> tuple[Cell, ...]:
    device = report.devices[at]
    limits = device.ceilings
    rates = limits.get("flops")
    text = clean(device.name, 80)
    if device.memory_bytes:
        text += f", {figures.size(device.memory_bytes)}"
    if isinstance(rates, dict):
        shown = sorted(rates.items(), key=lambda item: item[0])[:4]
        text += "".join(f", {clean(k, 12)} {figures.arithmetic(v)}" for k, v in shown)
    if limits.get("bytes_per_s"):
        text += f", {figures.bandwidth(limits['bytes_per_s'])}"
    if limits.get("source"):
        text += f" ({clean(limits['source'], 40)})"
    return f"{device.kind} {device.index}", _prose(text)


def _quality(report: Report) -> Iterator[Block]:
    quality = report.quality
    first = f"hooks: {quality.hooks}; events lost: {figures.count(quality.events_lost)}"
    if quality.overhead_fraction is not None:
        first += f"; overhead of profiling: {figures.share(quality.overhead_fraction)}"
    items: list[Cell] = [first, *(_prose(text) for text in content.doubts(report))]
    if quality.memory_or_compute:
        covered = quality.operators_covered
        of = f", {figures.share(covered)} of operator time covered" if covered is not None else ""
        items.append(f"memory or compute, told by: {_prose(quality.memory_or_compute)}{of}")
    gaps = sorted(content.gaps(report), key=content.absent)
    tail = [*quality.notes, *(f"missing {g.metric}: {g.reason}" for g in gaps)]
    items += [_prose(text) for text in tail[:MOST_ROWS]]
    if len(tail) > MOST_ROWS:
        items.append(f"{figures.count(len(tail) - MOST_ROWS, 'more note')} in the JSON report")
    yield Bullets(items)


def _prose(text: Any) -> str:
    return clean(text, TEXT_LIMIT)


def _value(value: Any) -> Cell:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return figures.number(value) if isinstance(value, float) else str(value)
    return Code(clean(value, 120)) if value not in (None, "") else figures.UNKNOWN


SECTIONS: tuple[tuple[str, Callable[[Report], Iterator[Block]]], ...] = (
    ("What to change", _changes),
    ("Evidence", _evidence),
    ("Jobs on this host", _jobs),
    ("Where the time goes", _time),
    ("Phases over time", _over_time),
    ("Hotspots", _hotspots),
    ("Findings", _findings),
    ("Use of the machine", _machine),
    ("Cost", _cost),
    ("Environment", _environment),
    ("Quality of the data", _quality),
)
