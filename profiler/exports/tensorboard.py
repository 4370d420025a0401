"""A run as TensorBoard scalars, written by TensorBoard's own writer (an extra)."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..report import Report
from ..series import Series
from .values import scalars


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
