"""Steps one by one: the newest before the moment shown, the longest of the run, the usual one."""

from __future__ import annotations

from typing import Any

from ..model import StepRow, StepsView
from .moment import Moment

RECENT, OUTLIERS = 60, 40
OUTLIER_TIMES = 2.0  # the usual step
USUAL_OF_NS = 600 * 10**9  # before the moment shown
# Exclusive times of a step in the order in which they usually come (as in the Chrome trace)
PHASES = (
    "data_wait", "iterator", "h2d", "pre_forward", "forward", "backward", "collective",
    "optimizer", "checkpoint", "logging", "evaluation", "gap",
)  # fmt: skip
NAMES = {
    "data_wait": "wait for data", "iterator": "loader start", "h2d": "copy to device",
    "pre_forward": "before forward", "collective": "collectives", "gap": "no phase",
}  # fmt: skip
_COLUMNS = ", ".join(f"{name}_ns" for name in PHASES)
_ROW = f"step, t_ns, duration_ns, samples, micro_batches, captured, {_COLUMNS}"
_OF_PID = "FROM step WHERE pid = ?"


def read(moment: Moment) -> StepsView:
    """Both lists, and the medians that they are compared with."""
    usual_ms, usual = _usual(moment)
    recent = moment.reader.rows(
        f"SELECT {_ROW} {_OF_PID} AND t_ns < ? ORDER BY t_ns DESC LIMIT {RECENT}",
        (moment.pid, moment.cursor_ns),
    )
    outliers: list[tuple[Any, ...]] = []
    if usual_ms:
        outliers = moment.reader.rows(
            f"SELECT {_ROW} {_OF_PID} AND duration_ns >= ? AND NOT coalesce(captured, false) "
            f"ORDER BY duration_ns DESC LIMIT {OUTLIERS}",
            (moment.pid, int(OUTLIER_TIMES * usual_ms * 1e6)),
        )
    start = moment.started_ns
    return StepsView(
        tuple(_row(row, start) for row in recent), tuple(_row(row, start) for row in outliers),
        usual_ms, usual,
    )  # fmt: skip


def _usual(moment: Moment) -> tuple[float | None, dict[str, float | None]]:
    medians = ", ".join(f"median({name}_ns) / 1e6" for name in PHASES)
    row = moment.reader.rows(
        f"SELECT median(duration_ns) / 1e6, {medians} {_OF_PID} AND t_ns BETWEEN ? AND ? "
        "AND NOT coalesce(captured, false)",
        (moment.pid, moment.cursor_ns - USUAL_OF_NS, moment.cursor_ns),
    )[0]
    return row[0], {_name(name): value for name, value in zip(PHASES, row[1:], strict=True)}


def _row(row: tuple[Any, ...], start: int) -> StepRow:
    step, t_ns, duration, samples, micro, captured, *phases = row
    parts = tuple(
        (_name(name), None if value is None else value / 1e6)
        for name, value in zip(PHASES, phases, strict=True)
    )
    return StepRow(
        step, (t_ns - start) / 1e9, duration / 1e6, parts, samples, micro, bool(captured)
    )


def _name(phase: str) -> str:
    return NAMES.get(phase, phase)
