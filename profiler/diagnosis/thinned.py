"""Long runs: steps at even distances are read; what they stand for is counted in the database.

A run of a day has millions of steps, more than can be looked at one by one at each report. Blocks
of steps with the same numbers in all processes keep neighbours together (pauses, bursts, ranks that
wait for each other); sums, quantiles and counts of one judged process come from all of its steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from .model import STEP_COLUMNS, Steady, Step, Whole
from .shares import totals
from .statistics import quantile

if TYPE_CHECKING:
    from .view import Reader

MOST = 20_000  # steps of all processes together that are read one by one
KEPT, FEWEST = 6_000, 300  # beyond that: in all, and of a process
BLOCK = 40  # steps in a row
FIRST = 250  # steps of each process that are always read: warm-up is looked for in them
LAST = 40
MOST_SILENT = 0.1  # of the steps may not tell their samples


# A pass over the data before a training is no part of it
_JUDGED = (
    "(kind IS DISTINCT FROM 'loading' OR "
    "NOT EXISTS (SELECT 1 FROM step WHERE kind IS DISTINCT FROM 'loading'))"
)


class Taken(NamedTuple):
    """The steps that were read, by pid, and how many there are."""

    steps: dict[int, list[Step]]
    counts: dict[int, int]

    @property
    def thinned(self) -> bool:
        return sum(map(len, self.steps.values())) < sum(self.counts.values())


def read(reader: Reader, *, processes: int | None = None) -> Taken:
    """The steps of one run file; `processes` is how many make steps in all files together."""
    bounds = reader.rows(
        f"SELECT pid, count(*), min(step), max(step) FROM step WHERE {_JUDGED} GROUP BY pid"
    )
    counts = {pid: count for pid, count, _, _ in bounds}
    several = max(processes or 0, len(counts), 1)
    where = f"WHERE {_JUDGED}"
    if sum(counts.values()) * several > MOST * max(1, len(counts)):
        first, last = min(row[2] for row in bounds), max(row[3] for row in bounds)
        where += f" AND ({_some(first, last, max(FEWEST, KEPT // several))})"
    found: dict[int, list[Step]] = defaultdict(list)
    for row in reader.rows(f"SELECT {STEP_COLUMNS} FROM step {where} ORDER BY t_ns"):
        step = Step(*row)
        found[step.pid].append(step)
    return Taken(dict(found), counts)


def _some(first: int, last: int, kept: int) -> str:
    """The condition of being read: by number, so that ranks keep the same steps."""
    period = max(BLOCK, (last - first + 1) * BLOCK // kept)
    return (
        f"step < {first + min(FIRST, kept // 2)} OR step > {last - LAST} OR captured "
        f"OR (step - {first}) % {period} < {BLOCK}"
    )


def all_samples(known: int, told: int, steps: int) -> int | None:
    """Samples of `steps` steps, of which `told` tell theirs, `known` together.

    Few may be silent, and count as the others: a loop that fetches one batch ahead has none left
    to fetch in its last step.
    """
    if not told or steps - told > max(1, steps * MOST_SILENT):
        return None
    return round(known * steps / told)


def samples_of(steps: Sequence[Step]) -> int | None:
    """The same of steps that were read."""
    known = [step.samples for step in steps if step.samples is not None]
    return all_samples(sum(known), len(known), len(steps))


# The columns of shares.RAW; what none of them covers follows from the duration
_INPUT = "coalesce(data_wait_ns, 0) + coalesce(iterator_ns, 0)"
_WORK = "coalesce(forward_ns, 0) + coalesce(backward_ns, 0) + coalesce(optimizer_ns, 0)"
_RAW = (
    _INPUT, "h2d_ns", "collective_ns", "checkpoint_ns", "logging_ns", "evaluation_ns", _WORK,
    "pre_forward_ns",
)  # fmt: skip


def whole(reader: Reader, pid: int, part: Steady) -> Whole | None:
    """What all steady steps of one process say together."""
    if not part.steps:
        return None
    sums = ", ".join(f"sum({column})" for column in _RAW)
    row = reader.rows(
        "SELECT count(*), sum(duration_ns), quantile_cont(duration_ns, [0.5, 0.95]), "
        f"sum(samples), count(samples), {sums} FROM step "
        f"WHERE {_JUDGED} AND pid = ? AND t_ns >= ? AND duration_ns > 0 "
        "AND NOT coalesce(captured, false)",
        (pid, part.steps[0].t_ns),
    )[0]
    count, duration, (p50, p95), samples, told = row[:5]
    raw = [float(value or 0) for value in row[5:]]
    parts = (*raw, max(0.0, float(duration) - sum(raw)))
    if any(s.data_wait_device_ns is not None or s.h2d_device_ns is not None for s in part.steps):
        # What the device hid is known of some steps only: in the measure of those that were read
        parts = tuple(one * float(duration) / part.duration_ns for one in totals(part.steps))
    return Whole(
        count=count, duration_ns=int(duration), p50_ms=p50 / 1e6, p95_ms=p95 / 1e6,
        samples=all_samples(int(samples or 0), told, count),
        sums=parts,
    )  # fmt: skip


def scaled(part: Steady, total: int) -> Whole | None:
    """The same from the steps that were read, when `total` were made."""
    if not part.steps:
        return None
    count = max(len(part.steps), total - part.warmup - len(part.captured))
    times = count / len(part.steps)
    durations = [step.duration_ns / 1e6 for step in part.steps]
    samples = samples_of(part.steps)
    return Whole(
        count=count, duration_ns=round(part.duration_ns * times),
        p50_ms=quantile(durations, 0.5) or 0.0, p95_ms=quantile(durations, 0.95) or 0.0,
        samples=None if samples is None else round(samples * times),
        sums=tuple(one * times for one in totals(part.steps)), exact=False,
    )  # fmt: skip


def epochs(reader: Reader, pid: int) -> Sequence[int]:
    """When epochs began, ns."""
    rows = reader.rows(
        "SELECT t_ns FROM step WHERE pid = ? AND first_of_epoch ORDER BY t_ns LIMIT 10000", (pid,)
    )
    return [t_ns for (t_ns,) in rows]
