"""A fleet's answer as a document for people."""

from __future__ import annotations

from ..reports import figures
from ..reports.document import Cell, Code, Document, Paragraph, Section, Table
from .answer import Fleet

MOST_GROUPS = 12
MOST_WEEKS = 12


def document(found: Fleet) -> Document:
    """What there is, what was lost, how that went week by week, what to mend first."""
    sections = [_lost(found), _fix_first(found), _weeks(found)]
    return Document(
        verdict=f"{figures.count(found.runs, 'run')}, {hours(found.accelerator_hours)}",
        headline=_headline(found),
        run=Paragraph((_basis(found),)),
        sections=[section for section in sections if section.blocks],
    )


def hours(value: float | None) -> str:
    """Device-hours; under an hour in minutes."""
    if value is None or value < 1:
        return figures.seconds(None if value is None else value * 3600)
    return f"{figures.number(value)} h"


def _headline(found: Fleet) -> str:
    lost = sum(one.accelerator_hours for one in found.lost) if found.by != "tag" else None
    if lost is None:  # a run with several tags stands in several groups
        lost = sum(week.lost_hours for week in found.weeks)
    if not found.judged_hours:
        return "no run has a verdict, so what was lost is not known"
    part = figures.share(lost / found.judged_hours)
    usd = [one.usd for one in found.lost if one.usd is not None]
    price = f", {figures.usd(sum(usd))}" if usd and found.by != "tag" else ""
    return f"devices waited {part} of the judged time ({hours(lost)}{price})"


def _basis(found: Fleet) -> str:
    parts = [f"by {found.engine}"]
    if found.cpu_hours:
        parts.append(f"{hours(found.cpu_hours)} of CPU hosts without an accelerator")
    unjudged = found.accelerator_hours - found.judged_hours
    if unjudged > 0.005 * found.accelerator_hours:
        parts.append(f"{hours(unjudged)} without a verdict")
    parts.append(f"{figures.usd(found.usd)} by list prices" if found.usd is not None
                 else "no price known")  # fmt: skip
    return " · ".join(parts)


def _lost(found: Fleet) -> Section:
    groups = list(dict.fromkeys(one.group for one in found.lost))
    shown = set(groups[:MOST_GROUPS])
    rows: list[tuple[Cell, ...]] = [
        (Code(one.group), one.bottleneck, hours(one.accelerator_hours), figures.share(one.share),
         figures.usd(one.usd))
        for one in found.lost if one.group in shown
    ]  # fmt: skip
    head = (found.by or "runs", "waits for", "hours", "of its time", "price")
    title = f"Lost by {found.by}" if found.by else "Lost"
    if len(groups) > MOST_GROUPS:
        title += f" (the {MOST_GROUPS} largest of {len(groups)}; --json has all)"
    return Section(title, [Table(head, rows, (2, 3, 4))] if rows else [])


def _fix_first(found: Fleet) -> Section:
    rows: list[tuple[Cell, ...]] = [
        (Code(one.run), one.user or figures.UNKNOWN,
         one.cause or one.bottleneck or figures.UNKNOWN, hours(one.gain_accelerator_hours),
         figures.usd(one.gain_usd))
        for one in found.fix_first
    ]  # fmt: skip
    head = ("run", "user", "why", "saves up to", "price")
    return Section("Mend first", [Table(head, rows, (3, 4))] if rows else [])


def _weeks(found: Fleet) -> Section:
    weeks = found.weeks[-MOST_WEEKS:]
    rows: list[tuple[Cell, ...]] = [
        (week.week, figures.count(week.runs), hours(week.accelerator_hours),
         hours(week.lost_hours), figures.share(week.lost_share), figures.usd(week.usd))
        for week in weeks
    ]  # fmt: skip
    head = ("week from", "runs", "hours", "waited", "share", "price")
    return Section("Week by week", [Table(head, rows, (1, 2, 3, 4, 5))] if len(rows) > 1 else [])
