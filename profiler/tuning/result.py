"""The answer of a tuning: schema accelprof.tune/1, and how a person reads it."""

from __future__ import annotations

from typing import Any

import msgspec

from ..diagnosis.doubts import CROWDED
from ..diagnosis.text import duration, many, percent
from ..reports.columns import columns
from . import settings as known
from .change import Change, change
from .measure import Arm, gain_interval, interval, sigma_between, sure
from .search import CLEARLY, WORTH, Search
from .settings import label

TOO_WIDE = 1.5  # a ceiling that may be this much higher than the job shows nothing
DIFFER = 1.5  # trials of one setting that differ this much are told


class TrialRow(msgspec.Struct):
    """One setting with all its trials. Samples are of all ranks together."""

    settings: dict[str, Any]
    samples_per_s: float | None
    interval: tuple[float, float] | None  # 95 %
    steps: int
    ended: str  # steps | job-ended | hopeless | stalled | failed
    steps_per_s: float | None = None  # instead, where samples are not known
    trials: int = 0
    epochs: int = 0  # whole epochs within the steps
    problem: str | None = None


class Best(msgspec.Struct):
    """The setting to take; empty settings: the job as it is."""

    settings: dict[str, Any]
    gain: float  # how many times the throughput of the job as it is
    interval: tuple[float, float]  # 95 %, of the gain
    probability: float  # that it is faster at all
    changes_numerics: bool = False


class Ceiling(msgspec.Struct):
    """The job with batches out of memory: the most that fixing the input can bring."""

    samples_per_s: float | None
    interval: tuple[float, float] | None = None
    gain: float | None = None
    trials: int = 0


class ChangeRow(msgspec.Struct):
    """What to change in the user's code."""

    file: str
    line: int
    before: str | None
    after: str | None
    note: str | None = None


class Tuned(msgspec.Struct):
    """The whole answer."""

    headline: str
    trials: list[TrialRow]
    best: Best
    ceiling: Ceiling
    change: ChangeRow | None
    add: list[str]  # statements to add, for what is no argument of the loader
    notes: list[str]
    wall_s: float
    trials_made: int = 0  # with the ceiling's, those that failed and one that was left out
    schema: str = "accelprof.tune/1"


def result(search: Search, wall_s: float) -> Tuned:
    """What the trials of a finished search say."""
    sigma = sigma_between([search.base, search.ceiling, *search.arms])
    ranks = search.first.ranks
    leader = search.leader()
    low, high = gain_interval(leader, search.base, sigma)
    if leader.rate < WORTH * search.base.rate or low <= 1.0:
        leader, (low, high) = search.base, gain_interval(search.base, search.base, sigma)
    gain = leader.rate / search.base.rate
    where = search.loader.where if search.loader else None
    found = change(where, known.loader_part(leader.settings)) if leader.settings else None
    notes = [*known.warnings(leader.settings), *search.notes, *_disturbed(search)]
    ceiling = _ceiling(search, sigma, ranks)
    best = Best(
        leader.settings, gain, (low, high),
        sure(leader, search.base, sigma) if leader is not search.base else 1.0,
        bool(known.warnings(leader.settings)),
    )  # fmt: skip
    return Tuned(
        headline=_headline(best, ceiling, search, sigma),
        trials=[_row(arm, sigma, ranks) for arm in (search.base, *search.arms)],
        best=best, ceiling=ceiling,
        change=_change_row(found), add=known.statements(leader.settings), notes=notes,
        wall_s=round(wall_s, 1), trials_made=search.trials,
    )  # fmt: skip


def _row(arm: Arm, sigma: float, ranks: int) -> TrialRow:
    counts = bool(arm.trials) and all(t.counts_samples for t in arm.trials)
    found = interval(arm, sigma)
    rate = arm.rate * ranks if arm.trials else None
    return TrialRow(
        settings=arm.settings, samples_per_s=rate if counts else None,
        interval=(found[0] * ranks, found[1] * ranks) if found else None,
        steps=arm.steps, ended=arm.ended[-1] if arm.ended else "not-run",
        steps_per_s=arm.rate if arm.trials and not counts else None, trials=len(arm.trials),
        epochs=sum(t.epochs for t in arm.trials), problem=arm.problem,
    )  # fmt: skip


def _ceiling(search: Search, sigma: float, ranks: int) -> Ceiling:
    row = _row(search.ceiling, sigma, ranks)
    if not search.ceiling.usable:
        return Ceiling(None)
    gain = search.ceiling.rate / search.base.rate
    return Ceiling(row.samples_per_s, row.interval, gain, row.trials)


def _change_row(found: Change | None) -> ChangeRow | None:
    if found is None:
        return None
    return ChangeRow(found.file, found.line, found.before, found.after, found.note)


def _headline(best: Best, ceiling: Ceiling, search: Search, sigma: float) -> str:
    leader, base = search.leader(), search.base
    looks = leader.rate / base.rate
    most = ""
    if ceiling.gain is not None and ceiling.gain > looks:
        most = f"; with batches out of memory it would be {ceiling.gain:.2f} times as fast"
    if best.settings:
        low, high = best.interval
        return (
            f"{label(best.settings)} makes the job {best.gain:.2f} times as fast "
            f"({low:.2f} to {high:.2f}){most}."
        )
    cure = "give a longer --budget" if search.short else "try again on a quieter machine"
    if looks >= CLEARLY:
        low, high = gain_interval(leader, base, sigma)
        return (
            f"{label(leader.settings)} looks {looks:.2f} times as fast ({low:.2f} to {high:.2f}), "
            f"but {_trials_of(leader, base)} not separate it from the job as it is; {cure}."
        )
    if ceiling.gain is not None and ceiling.gain < WORTH:
        return _not_the_input(gain_interval(search.ceiling, base, sigma), cure)
    if not any(arm.usable for arm in search.arms):
        return f"Nothing can be said yet: only the job as it is was measured{most}."
    if search.short:
        return f"Nothing faster was found in the time{most}; {cure}."
    tried = " that was tried" if search.asked.tries else ""
    return f"Nothing to change: no setting{tried} is faster than the job as it is{most}."


def _not_the_input(gain: tuple[float, float], cure: str) -> str:
    """Of a ceiling that is no higher than the job, whose gain has this interval."""
    if gain[1] > TOO_WIDE:
        return (
            "Nothing can be said yet: trials differ too much. With batches out of memory the job "
            f"may be {gain[0]:.2f} to {gain[1]:.2f} times as fast; {cure}."
        )
    return (
        "Nothing to change: with batches out of memory the job is no faster, so its input does "
        "not hold it up."
    )


def _trials_of(one: Arm, other: Arm) -> str:
    """`3 trials of each do`, `1 and 2 trials do`."""
    first, second = len(one.trials), len(other.trials)
    if first != second:
        return f"{first} and {second} trials do"
    return f"{many(first, 'trial')} of each {'does' if first == 1 else 'do'}"


def _disturbed(search: Search) -> list[str]:
    """Trials of one setting that differ much, which widens every interval; and the likely cause."""
    rates = {
        label(arm.settings): [t.rate * search.first.ranks for t in arm.trials]
        for arm in (search.base, *search.arms) if len(arm.trials) > 1
    }  # fmt: skip
    name = max(rates, key=lambda one: max(rates[one]) / min(rates[one]), default=None)
    if name is None or max(rates[name]) < DIFFER * min(rates[name]):
        return []
    listed = ", ".join(map(_number, rates[name]))
    note = f"trials of one setting differ much ({name}: {listed}), which widens all intervals"
    if search.others_cores > CROWDED * search.asked.cores:
        note += (
            f": the machine was crowded, other processes used up to {search.others_cores:.1f} of "
            f"{search.asked.cores:g} cores"
        )
    return [note]


# -- for a person ------------------------------------------------------------------------------


def render(tuned: Tuned) -> str:
    """Headline, table, the change."""
    lines = [tuned.headline, "", *_table(tuned), ""]
    if tuned.best.settings:
        lines += _advice(tuned)
    lines += [f"Note: {note}" for note in tuned.notes]
    lines.append(
        f"{many(tuned.trials_made, 'trial')} in {duration(tuned.wall_s)}. Intervals are 95 %, with "
        "the scatter between trials in them."
    )
    return "\n".join(lines)


def _table(tuned: Tuned) -> list[str]:
    base = tuned.trials[0]
    unit = "samples/s" if base.samples_per_s is not None else "steps/s"
    cells: list[tuple[str, ...]] = [
        ("setting", unit, "interval", "against now", "steps", "trials", "")
    ]
    cells += [_cells(row, _rate(base)) for row in tuned.trials]
    if tuned.ceiling.samples_per_s is not None:
        found = tuned.ceiling
        others = any(known.loader_part(row.settings) != row.settings for row in tuned.trials)
        cells.append((
            "ceiling: batches out of memory", _number(found.samples_per_s), _range(found.interval),
            f"{found.gain:.2f}x", "", str(found.trials),
            "for the loader's settings alone" if others else "",
        ))  # fmt: skip
    return columns(cells, left=(0, 6))


def _cells(row: TrialRow, base: float | None) -> tuple[str, ...]:
    rate = _rate(row)
    remark = row.problem or ("cut short, it cannot win" if row.ended == "hopeless" else "")
    return (
        label(row.settings), _number(rate), _range(row.interval),
        f"{rate / base:.2f}x" if rate and base else "-", str(row.steps), str(row.trials), remark,
    )  # fmt: skip


def _rate(row: TrialRow) -> float | None:
    return row.samples_per_s if row.samples_per_s is not None else row.steps_per_s


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def _range(found: tuple[float, float] | None) -> str:
    return "-" if found is None else f"{_number(found[0])}-{_number(found[1])}"


def _advice(tuned: Tuned) -> list[str]:
    best, found = tuned.best, tuned.change
    lines = []
    if found is not None:
        lines.append(f"{found.file}:{found.line}")
        lines += [f"  - {line.strip()}" for line in (found.before or "").splitlines()]
        lines += [f"  + {line.strip()}" for line in (found.after or "").splitlines()]
        if found.note:
            lines.append(f"  {found.note}")
    elif any(known.KEYS[name].of_loader for name in best.settings):
        lines.append(f"Where the DataLoader is made: {label(known.loader_part(best.settings))}")
    lines += [f"  + {statement}" for statement in tuned.add]
    lines.append(f"It is faster with a probability of {percent(min(best.probability, 0.999))}.")
    return [*lines, ""]
