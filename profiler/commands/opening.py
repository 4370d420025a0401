"""Opening the run that a user named: what goes wrong becomes one line and an exit status."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...storage import library
from ...storage.reader import BadRunFile, QueryError, RunReader, open_run
from ..errors import UserError
from ..report import Report


@contextmanager
def opened(run: str) -> Iterator[RunReader]:
    """A reader of the run, closed at the end. Raises `UserError`: 3 no such run, 2 a bad file."""
    try:
        with open_run(library.resolve(run)) as reader:
            yield reader
    except library.RunNotFound as error:
        raise UserError(str(error), status=3) from None
    except (BadRunFile, QueryError) as error:
        raise UserError(str(error)) from None


def report_of(reader: RunReader) -> Report:
    """The report of an opened run. Raises `UserError` (3) when nothing was recorded."""
    from ..diagnosis import diagnose

    if _empty(reader):
        name = reader.folder.name
        raise UserError(f"{name}: nothing was recorded in this run", status=3)
    return settled(diagnose(reader), live=reader.live)


def settled(report: Report, *, live: bool) -> Report:
    """The report with state `lost` when the run says that it runs and nobody records it."""
    if report.run.state == "running" and not live:
        report.run.state = "lost"
    return report


def _empty(reader: RunReader) -> bool:
    tables = ("step", "process", "process_sample", "host_sample", "device_sample", "op")
    parts = " + ".join(f"(SELECT count(*) FROM {table})" for table in tables)
    return not reader.rows("SELECT 1 FROM run LIMIT 1") or not reader.rows(f"SELECT {parts}")[0][0]
