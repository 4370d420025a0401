"""A run as TensorBoard scalars, written by TensorBoard's own writer (an extra)."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..report import Report
from ..series import Line, Series


def write(report: Report, series: Series, folder: Path, started_s: float) -> int:
    """One event file in `folder`; the number of scalars. x is the step, or the second."""
    events, summaries, writers = _library()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writer = writers.EventFileWriter(str(folder), filename_suffix=f".{report.run.id}")
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror}") from None
    count = 0
    for at_s, step, name, value in scalars(series):
        one = summaries.Summary.Value(tag=name, simple_value=value)
        writer.add_event(
            events.Event(
                wall_time=started_s + at_s, step=step, summary=summaries.Summary(value=[one])
            )
        )
        count += 1
    writer.close()
    return count


def _library() -> tuple[Any, Any, Any]:
    names = ("compat.proto.event_pb2", "compat.proto.summary_pb2",
             "summary.writer.event_file_writer")  # fmt: skip
    try:
        events, summaries, writers = (importlib.import_module(f"tensorboard.{n}") for n in names)
    except ImportError:
        raise UserError(
            "--tensorboard needs TensorBoard: pip install 'accelprof[tensorboard]'"
        ) from None
    return events, summaries, writers


def scalars(series: Series) -> Iterator[tuple[float, int, str, float]]:
    """(seconds since the start, x, name, value)."""
    done = 0
    for stretch in series.stretches:
        done += stretch.steps
        for name, value in (("step_ms/p50", stretch.p50_ms), ("step_ms/p95", stretch.p95_ms)):
            if value is not None:
                yield stretch.to_s, done, f"accelprof/{name}", value
        for share, part in stretch.shares.items():
            yield stretch.to_s, done, f"accelprof/share/{share}", part
    for group, lines in (("use", series.use), ("memory", series.memory), ("power", series.power)):
        for line in lines:
            yield from _line(group, line)


def _line(group: str, line: Line) -> Iterator[tuple[float, int, str, float]]:
    name = "".join(c if c.isalnum() else "_" for c in line.name)
    for at_s, value in line.points:
        if value is not None:
            yield at_s, round(at_s), f"accelprof/{group}/{name}", float(value)
