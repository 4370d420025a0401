"""Makes Snapshots of a run: queries through RunReader, judged by the diagnosis. Draws nothing.

Cheap parts (pace, timeline, samples) are read at each call; the diagnosis, whose cost grows with
the run, is made again only when a multiple of its own duration has passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

from ..profiler.diagnosis import examine
from ..profiler.diagnosis import shares as division
from ..profiler.diagnosis.figures import LEAST_FOR_P95
from ..profiler.diagnosis.model import RunView, Step
from ..profiler.report import Report
from ..profiler.reports import content
from ..storage.reader import RunReader
from . import samples
from .details import DETAILS, Moment
from .model import Column, Detail, Epoch, Pace, Request, Snapshot

MINUTE_NS = 60 * 10**9
RECENT_NS = 10 * MINUTE_NS  # the timeline of a live run
SHORTEST_COLUMN_NS = 200_000_000
STEPS_A_COLUMN = 2  # usual steps, at least, that a column holds
JUDGE_AGAIN_S, JUDGE_AGAIN_AT_LATEST_S = 5.0, 30.0
JUDGE_AGAIN_TIMES = 40  # of the time that the last diagnosis took

_NICE_NS = tuple(int(s * 1e9) for s in (0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600))


class Judge(Protocol):
    """As `diagnosis.examine`."""

    def __call__(self, reader: RunReader, *, now_ns: int | None) -> tuple[Report, RunView]: ...


_SUMMED = ("_ns", "samples", "micro_batches")


def _summed(name: str) -> str:
    if name in ("t_ns",) or not name.endswith(_SUMMED):
        return f"NULL AS {name}"
    return f"sum({name})::BIGINT AS {name}"


# One row of sums in the shape of a Step, so that the diagnosis divides it as it divides a step
_SUMS = ", ".join(_summed(name) for name in Step._fields)
_EXTRA = (
    "count(*), quantile_cont(duration_ns, 0.5) / 1e6, quantile_cont(duration_ns, 0.95) / 1e6, "
    "max(t_ns + duration_ns)"
)
_STEPS = "FROM step WHERE pid = ? AND NOT coalesce(captured, false) AND t_ns >= ? AND t_ns < ?"


class RunFeed:
    """Snapshots of one run, for one thread."""

    def __init__(
        self, reader: RunReader, *, now_ns: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], float] = time.monotonic,
        judge: Judge = examine,
    ) -> None:  # fmt: skip
        self._reader = reader
        self._now_ns = now_ns
        self._monotonic = monotonic
        self._judge = judge
        self._judged: tuple[Report, RunView] | None = None
        self._judged_live = True
        self._judge_at = 0.0
        self._timeline: tuple[tuple[int, ...], tuple[Column, ...]] | None = None
        self._details: dict[str, Detail] = {}

    def close(self) -> None:
        """Lets go of the run."""
        self._reader.close()

    def snapshot(self, request: Request) -> Snapshot:
        """The run at the request's moment, with the details of its view."""
        now = self._now_ns()
        report, view = self._examined(now)
        live = self._reader.live
        started, ended = self._bounds(view, live, now)
        cursor = ended
        if request.cursor_ns is not None:
            cursor = min(max(request.cursor_ns, started), ended)
        how = view.division or division.Division(
            None, view.device, view.stacks, bool(view.loaders), None
        )
        pid = view.steady.steps[0].pid if view.steady.steps else self._any_pid()
        timeline = self._columns(pid, how, (started, ended), request.columns, report)
        pace = self._pace(pid, how, cursor, started, view.samples_times)
        if maker := DETAILS.get(request.view):
            moment = Moment(self._reader, report, view, pid, started, cursor, timeline)
            self._details[request.view] = maker(moment)
        return Snapshot(
            id=report.run.id, name=report.run.name, live=live,
            state=content.state(report.run.state, report.run.exit_status),
            started_ns=started, ended_ns=ended, cursor_ns=cursor, report=report,
            pace=pace, columns=timeline, request=request, details=dict(self._details),
            epoch=self._epoch(pid, view, cursor, pace),
            step_ceiling_ms=_ceiling(timeline),
            machine=samples.machine(self._reader, cursor),
            processes=samples.processes(self._reader, cursor),
            bottleneck_now=_at(report, (cursor - started) / 1e9),
        )  # fmt: skip

    def _examined(self, now: int) -> tuple[Report, RunView]:
        started = self._monotonic()
        live = self._reader.live
        just_ended = self._judged_live and not live  # captures, ceilings, the last steps came
        if self._judged is None or just_ended or (live and started >= self._judge_at):
            report, view = self._judge(self._reader, now_ns=now)
            live = self._reader.live
            self._judged = content.settled(report, live=live), view
            self._judged_live = live
            took = self._monotonic() - started
            wait = min(JUDGE_AGAIN_TIMES * took, JUDGE_AGAIN_AT_LATEST_S)
            self._judge_at = started + max(JUDGE_AGAIN_S, wait)
        return self._judged

    def _bounds(self, view: RunView, live: bool, now: int) -> tuple[int, int]:
        """From and to of the run; a run whose recorder died ends with its last sample."""
        started = view.run.get("started_ns") or (view.steps[0].t_ns if view.steps else now)
        ended = now if live else view.run.get("ended_ns")
        if ended is None:
            last = view.steps[-1] if view.steps else None
            ended = last.t_ns + last.duration_ns if last else started
            ended = max(ended, samples.last_ns(self._reader) or started)
        return started, max(ended, started + 1)

    def _any_pid(self) -> int:
        rows = self._reader.rows("SELECT pid FROM step LIMIT 1")
        return int(rows[0][0]) if rows else -1

    def _pace(self, pid: int, how: division.Division, cursor: int, started: int,
              times: float | None) -> Pace:  # fmt: skip
        since = max(started, cursor - MINUTE_NS)
        row = self._reader.rows(f"SELECT {_SUMS}, {_EXTRA} {_STEPS}", (pid, since, cursor))[0]
        sums, (count, p50, p95, _) = _as_step(row), row[-4:]
        if not count or not sums.duration_ns:
            return Pace()
        seconds = sums.duration_ns / 1e9
        samples_per_s = sums.samples * times / seconds if sums.samples and times else None
        p95 = p95 if count >= LEAST_FOR_P95 else None
        return Pace(count / seconds, samples_per_s, p50, p95, _divided(sums, how))

    def _epoch(self, pid: int, view: RunView, cursor: int, pace: Pace) -> Epoch | None:
        """From the loader's length, else the epoch before; None when no epoch was seen to begin."""
        starts = [s.t_ns for s in view.steps if s.first_of_epoch and s.t_ns <= cursor]
        if not starts:
            return None
        counted = (
            "SELECT sum(coalesce(micro_batches, 1)), count(*) FROM step "
            "WHERE pid = ? AND t_ns >= ? AND t_ns < ?"
        )
        done, steps = self._reader.rows(counted, (pid, starts[-1], cursor))[0]
        length = view.loader.length if view.loader else None
        if not length and len(starts) > 1:
            length = self._reader.rows(counted, (pid, starts[-2], starts[-1]))[0][0]
        left = None
        if length and done and pace.steps_per_s:
            left = max(0.0, (length - done) * steps / done / pace.steps_per_s)
        return Epoch(len(starts), int(done or 0), int(length) if length else None, left)

    def _columns(
        self, pid: int, how: division.Division, bounds: tuple[int, int], most: int, report: Report
    ) -> tuple[Column, ...]:
        """The run's last minutes while it lives, else all of it."""
        started, ended = bounds
        if self._reader.live:
            started = max(started, ended - RECENT_NS)
        width = _column_ns(ended - started, most, report.time.step_ms.p50)
        if self._reader.live:  # columns stay as they are while time goes on: no flicker
            width = next((nice for nice in _NICE_NS if nice >= width), width)
        first = (started - bounds[0]) // width * width + bounds[0]
        key = (pid, first, ended, width)
        if self._timeline is None or self._timeline[0] != key:
            rows = self._reader.rows(
                f"SELECT ((t_ns - ?) // ?)::BIGINT AS bin, {_SUMS}, {_EXTRA} {_STEPS} GROUP BY bin",
                (first, width, pid, first, ended),
            )
            found = {int(row[0]): row[1:] for row in rows}
            many = max(1, -(-(ended - first) // width))
            made = tuple(_made(found, how, first, width, many))
            self._timeline = key, made
        return self._timeline[1]


def _column_ns(length_ns: int, most: int, step_ms: float | None) -> int:
    """The width of a column: `most` of them cover the length, and each holds some steps."""
    least = max(SHORTEST_COLUMN_NS, int((step_ms or 0.0) * 1e6 * STEPS_A_COLUMN))
    return max(least, -(-length_ns // max(1, most)))


def _made(
    found: dict[int, tuple[Any, ...]], how: division.Division, first: int, width: int, many: int
) -> Iterator[Column]:
    """The columns; one in which no step began belongs to the step that goes on through it."""
    last, reach = Column(first, first, {}), 0
    for at in range(many):
        start = first + at * width
        if row := found.get(at):
            count, p50, p95, reach = row[-4:]
            shares = _divided(_as_step(row), how)
            last = Column(start, start + width, shares, count, p50, p95)
            yield last
        elif reach > start:
            yield replace(last, from_ns=start, to_ns=start + width, steps=0)
        else:
            yield Column(start, start + width, {})


def _as_step(row: tuple[Any, ...]) -> Step:
    return Step._make(row[: len(Step._fields)])


def _divided(sums: Step, how: division.Division) -> dict[str, float]:
    return division.divide(division.totals([sums]), how)[0]


def _ceiling(columns: tuple[Column, ...]) -> float | None:
    """The top of the step chart: the p95 of most columns; single outliers are cut, and shown so."""
    highest = sorted(c.p95_ms for c in columns if c.p95_ms is not None)
    return highest[int(0.97 * (len(highest) - 1))] if highest else None


def _at(report: Report, seconds: float) -> str | None:
    """The bottleneck of the window that holds this moment."""
    for window in report.phases_over_time:
        if window.from_s <= seconds <= window.to_s:
            return window.bottleneck
    return None


def failed(snapshot: Snapshot, problem: str) -> Snapshot:
    """The same moment, with the reason why there is nothing newer."""
    return replace(snapshot, problem=problem)
