"""What a report shows and in which order: the choices that every format shares.

Nothing here judges: orders and words follow from fields of the Report.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import NamedTuple

from ...storage import library
from ..report import Finding, Gap, Report
from . import figures
from .plain import clean

_SEVERITIES = ("critical", "warning", "info")


class Change(NamedTuple):
    """One piece of advice."""

    text: str
    finding: Finding
    worth: str  # empty when not known, or said with the finding's advice before


def settled(report: Report, *, live: bool) -> Report:
    """The report with state `lost` when the run says that it runs and nobody records it."""
    if report.run.state == "running" and not live:
        report.run.state = "lost"
    return report


def by_worth(findings: list[Finding]) -> list[Finding]:
    """What ended or endangers the job first, then what helps most, then the severest."""

    def key(finding: Finding) -> tuple[bool, float, int]:
        worth = finding.speedup_limit or 0.0
        deadly = finding.severity == "critical" and not worth
        return (not deadly, -worth, _SEVERITIES.index(finding.severity))

    return sorted(findings, key=key)


def changes(report: Report) -> list[Change]:
    """All advice of all findings, ordered by what it is worth."""
    found: dict[str, Change] = {}  # two findings may give the same advice
    for finding in by_worth(report.findings):
        for at, advice in enumerate(finding.advice):
            text = clean(advice)
            found.setdefault(text, Change(text, finding, worth(finding) if at == 0 else ""))
    return list(found.values())


def worth(finding: Finding) -> str:
    """What following the advice brings at most; empty when not known."""
    return promise(finding.speedup_limit)


def promise(limit: float | None) -> str:
    """A limit in words. Nobody is promised 100x: over 10x the next bottleneck decides."""
    if not limit:
        return ""
    if limit > 10:
        return "over 10x"
    return f"up to {figures.times(limit)}" if limit >= 1.01 else "under 1 %"


def headline(report: Report) -> str:
    """The verdict's sentence without the bottleneck's name, which stands before it everywhere."""
    return without_name(report.verdict.headline, report.verdict.bottleneck)


def without_name(headline: str, bottleneck: str) -> str:
    """The same, for a bottleneck that stands beside it."""
    text, name = clean(headline), f"{bottleneck}:"
    if text.lower().startswith(name):
        text = text[len(name) :].strip()
    return text[:1].upper() + text[1:]


_INTERRUPTED = "interrupted"


def ending(report: Report) -> str:
    """How the run ended and how long it took: `failed with status 1 after 12 s`."""
    run = report.run
    took = figures.seconds(run.wall_s)
    if run.attached_pid is not None and run.state == "finished" and run.exit_status is None:
        return f"process {run.attached_pid} watched for {took}"
    return {
        "finished": f"finished in {took}",
        "running": f"running for {took}",
        "failed": f"failed with status {run.exit_status} after {took}",
        "killed": f"{_killed(_signal(run.exit_status))} after {took}",
        "lost": f"lost sight of after {took}",
    }[run.state]


def state(name: str, exit_status: int | None) -> str:
    """The state of a run in one word: one that Ctrl-C ended is not called killed."""
    interrupted = name == "killed" and _signal(exit_status) == signal.SIGINT
    return _INTERRUPTED if interrupted else name


def _killed(number: int) -> str:
    if number == signal.SIGINT:
        return _INTERRUPTED
    return f"killed by signal {number}" if 0 < number < 65 else "killed"


def _signal(status: int | None) -> int:
    return -status if status is not None and status < 0 else (status or 0) - 128


def steps(report: Report) -> list[str]:
    """Steps, their time and the throughput, as short phrases."""
    time = report.time
    if not time.steps:
        total = figures.count(time.steps_total)
        return [f"none steady of {total}" if time.steps_total else "none seen"]
    step = f"p50 {figures.milliseconds(time.step_ms.p50)}"
    if time.step_ms.p95 is not None:
        step += f", p95 {figures.milliseconds(time.step_ms.p95)}"
    parts = [f"{figures.count(time.steps)} steady", step]
    if time.steps_per_s is not None:
        parts.append(figures.rate(time.steps_per_s, "steps"))
    if time.samples_per_s is not None:
        parts.append(figures.rate(time.samples_per_s, "samples"))
    if time.ranks > 1:
        parts.append(figures.count(time.ranks, "rank"))
    return parts


def cost(report: Report) -> list[str]:
    """Accelerator time, money and energy with what was lost of each; empty without accelerators."""
    spent = report.cost
    if spent.accelerator_s is None:
        return []
    text = f"{figures.seconds(spent.accelerator_s)} of accelerator time"
    if spent.lost_accelerator_s is not None:
        text += f", {figures.seconds(spent.lost_accelerator_s)} of it lost"
    parts = [text]
    if spent.usd is None:
        parts.append("its price is not known")
    else:
        lost = f", {figures.usd(spent.lost_usd)} lost" if spent.lost_usd is not None else ""
        parts.append(f"{figures.usd(spent.usd)}{lost} at {figures.usd(spent.usd_per_hour)} an hour "
                     f"({clean(spent.price_source or 'no source', 100)})")  # fmt: skip
    if spent.energy_j is not None:
        parts.append(figures.energy(spent.energy_j))
    return parts


def cost_in_brief(report: Report) -> str:
    """One line of it: money where a price is known, else time; empty without accelerators."""
    spent = report.cost
    if spent.accelerator_s is None:
        return ""
    if spent.usd is None:
        whole, lost = figures.seconds(spent.accelerator_s), spent.lost_accelerator_s
        text = f"{whole} of accelerator time"
        text += f", {figures.seconds(lost)} of it lost" if lost is not None else ""
    else:
        text = figures.usd(spent.usd)
        text += f", {figures.usd(spent.lost_usd)} of it lost" if spent.lost_usd is not None else ""
        text += f" ({clean(spent.price_source or 'no source', 100)})"
    return f"{text} · {figures.energy(spent.energy_j)}" if spent.energy_j is not None else text


def doubts(report: Report) -> list[str]:
    """What weakens the verdict, the most important first. Single missing readings: `gaps`."""
    quality = report.quality
    found = []
    if quality.hooks != "full":
        reasons = [gap.reason for gap in quality.gaps if _about_hooks(gap)]
        word = "no hooks" if quality.hooks == "none" else "hooks only in part"
        found.append(clean(f"{word}: {reasons[0]}" if reasons else word))
    if quality.events_lost:
        found.append(f"{figures.count(quality.events_lost, 'event')} lost")
    return found


def not_observed(report: Report) -> str:
    """The phases that no hook ever saw: their time is not known, which is not 0."""
    return clean(", ".join(report.time.not_observed), 300)


def gaps(report: Report) -> list[Gap]:
    """Readings that are missing, without what `doubts` says."""
    told = report.quality.hooks != "full"
    return [gap for gap in report.quality.gaps if not (told and _about_hooks(gap))]


def absent(gap: Gap) -> bool:
    """Whether the gap is of a whole source ("tpu.*"): hardware or a driver that is not here."""
    return gap.metric.endswith(".*")


def _about_hooks(gap: Gap) -> bool:
    return gap.metric.startswith("hooks")


def folder_of(report: Report, folder: Path | None) -> Path:
    """Where the run lies; by its id in the library when nobody said."""
    return folder or library.home() / "runs" / report.run.id


def short_path(path: Path) -> str:
    """The path with the user's home as ~."""
    home = os.path.expanduser("~")  # noqa: PTH111 - a HOME that is not set is no error here
    text = str(path)
    return clean("~" + text[len(home) :] if home != "/" and text.startswith(home + "/") else text)


def report_command(report: Report, folder: Path | None) -> str:
    """The command that shows the full report of this run."""
    where = folder_of(report, folder)
    if where.parent == library.home() / "runs":
        return f"accelprof report {clean(report.run.id)}"
    text = short_path(where)
    return f"accelprof report '{text}'" if " " in text else f"accelprof report {text}"
