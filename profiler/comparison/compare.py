"""Runs side by side: from opened runs to a Comparison."""

from __future__ import annotations

from collections.abc import Sequence

from ..launch import name_from
from ..report import Report
from ..reports import content, figures
from ..reports.plain import clean
from . import changes, metrics
from .eight import eight
from .model import Change, Changed, Comparison, Metric, Verdict
from .sides import Side

_TOLD = 3  # changes that the headline names


def compare(sides: Sequence[Side], *, table: bool = False) -> Comparison:
    """Two to eight runs; the first is what the others are set against."""
    found, changed = metrics.compared(sides), changes.changed(sides)
    names = _names(sides)
    return Comparison(
        runs=[side.id for side in sides], names=names, changed=changed, metrics=found,
        verdicts=[_verdict(side.report) for side in sides], findings=_findings(sides),
        headline=_going(sides, names) + _unlike(sides) + headline(sides, names, found, changed),
        notes=_notes(sides),
        table=eight(sides) if table else None,
    )  # fmt: skip


def _names(sides: Sequence[Side]) -> list[str]:
    """Names where they tell the runs apart, else ids."""
    names = [side.report.run.name for side in sides]
    return names if all(names) and len(set(names)) == len(names) else [s.id for s in sides]


def _verdict(report: Report) -> Verdict:
    found = report.verdict
    return Verdict(
        found.bottleneck, found.confidence, found.cause, found.headline, found.speedup_limit
    )


def _findings(sides: Sequence[Side]) -> list[Change]:
    having = [{finding.id for finding in side.report.findings} for side in sides]
    every = dict.fromkeys(finding.id for side in sides for finding in side.report.findings)
    return [Change(name, [name in ids for ids in having]) for name in every]


def _going(sides: Sequence[Side], names: Sequence[str]) -> str:
    """Which runs go on, said before all else."""
    states = {n: s.report.run.state for n, s in zip(names, sides, strict=True)}
    going = [name for name, state in states.items() if state == "running"]
    if not going:
        return ""
    verb = "still runs, so its" if len(going) == 1 else "still run, so their"
    return f"{', '.join(going)} {verb} figures are so far. "


def _unlike(sides: Sequence[Side]) -> str:
    """Runs of unlike programs, said before a ratio that then says nothing of a change."""
    programs = dict.fromkeys(name_from(side.report.run.command) for side in sides)
    if len(programs) < 2 or not all(programs):
        return ""
    return f"Different programs ({', '.join(clean(name, 40) for name in programs)}). "


# -- in one sentence ---------------------------------------------------------------------------


def headline(
    sides: Sequence[Side], names: Sequence[str], found: Sequence[Metric], changed: Changed
) -> str:
    """What the change did, whether that is noise, and what was changed."""
    if len({side.id for side in sides}) == 1:
        return f"{sides[0].id} is compared with itself: nothing can differ."
    rate = _rate(found)
    if rate is None:
        without = [n for n, s in zip(names, sides, strict=True) if not s.report.time.steps]
        return (
            f"Throughput cannot be compared: no steady steps in {', '.join(without) or 'common'}."
        )
    if len(sides) > 2:
        return _fastest(names, rate)
    first, last = rate.values
    sentence = _effect(names, rate, f"{_number(first)} to {figures.rate(last, _unit(rate))}")
    return sentence + _why(sides, changed)


def _rate(found: Sequence[Metric]) -> Metric | None:
    """Samples per second where all runs know it, else steps per second."""
    for name in ("samples_per_s", "steps_per_s"):
        for metric in found:
            if metric.name == name and all(v for v in metric.values):
                return metric
    return None


def _unit(rate: Metric) -> str:
    return rate.unit.removesuffix("/s")


def _number(value: float | None) -> str:
    return figures.number(value)


def _effect(names: Sequence[str], rate: Metric, values: str) -> str:
    first, last = names[0], names[-1]
    if rate.significant is False:
        return f"No difference beyond noise between {first} and {last}: {values}{_interval(rate)}"
    ratio = rate.ratio or 1.0
    if 0.995 <= ratio <= 1.005:
        said = f"{last} is as fast as {first}"
    elif ratio > 1:
        said = f"{last} is {_times(ratio)} as fast as {first}"
    else:
        said = f"{last} is {figures.share(1 - ratio)} slower than {first}"
    doubt = "" if rate.significant else ", too few steps to tell from noise"
    return f"{said}: {values}{_interval(rate)}{doubt}"


def _times(ratio: float) -> str:
    """A ratio beside its interval: two decimals in both."""
    return f"{ratio:.2f}x" if ratio < 10 else figures.times(ratio)


def _interval(rate: Metric) -> str:
    if rate.interval is None:
        return ""
    low, high = rate.interval
    return f" (95 % interval {_times(low)} to {_times(high)})"


def _why(sides: Sequence[Side], changed: Changed) -> str:
    told = [*changed.settings, *changed.arguments, *changed.hardware, *changed.environment]
    named = [f"{c.name} {_said(c.values[0])} to {_said(c.values[-1])}" for c in told[:_TOLD]]
    parts = [f"; changed: {', '.join(named)}"] if named else []
    before, after = (side.report.verdict.bottleneck for side in (sides[0], sides[-1]))
    parts.append(f"; {before} became {after}" if before != after else f"; still {before}")
    return clean("".join(parts) + ".", 400)


def _said(value: object) -> str:
    return "none" if value is None else clean(value, 40)


def _fastest(names: Sequence[str], rate: Metric) -> str:
    values = [v or 0.0 for v in rate.values]
    best = max(range(len(values)), key=lambda at: values[at])
    speed = figures.rate(values[best], _unit(rate))
    if best == 0:
        return f"None of the others is faster than {names[0]}: {speed}."
    against = rate.against_first[best - 1]
    noise = {True: "", False: ", within noise", None: ", too few steps to tell from noise"}
    said = f"{speed}, {_times(against.ratio or 1.0)} as fast as {names[0]}"
    return f"{names[best]} is the fastest: {said}{noise[against.significant]}."


def _notes(sides: Sequence[Side]) -> list[str]:
    """What weakens the comparison."""
    found = ["intervals know the scatter within each run, not that between repeated runs"]
    for side in {side.id: side for side in sides}.values():
        run, time = side.report.run, side.report.time
        if run.state != "finished":
            state = content.state(run.state, run.exit_status)
            found.append(f"{side.id} is {state}, not finished")
        if time.steps and len(side.blocks) < 6:
            found.append(f"{side.id} has only {figures.count(time.steps, 'steady step')}")
        if side.report.quality.hooks != "full":
            found.append(f"{side.id} has hooks: {side.report.quality.hooks}")
    sizes = {changes.settings(side)["samples a step"] for side in sides}
    if len(sizes) > 1:
        found.append("steps differ in size: compare samples/s, not the time of a step")
    return found
