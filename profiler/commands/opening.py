"""Opening the run that a user named, and its report."""

from __future__ import annotations

from ...storage import library
from ...storage.reader import RunReader, open_run
from ..errors import UserError
from ..report import Report


def opened(run: str) -> RunReader:
    """A reader of the run. Raises `RunNotFound`, `BadRunFile`."""
    return open_run(library.resolve(run))


def report_of(reader: RunReader) -> Report:
    """The report of an opened run. Raises `UserError` (3) when nothing was recorded."""
    from ..diagnosis import diagnose
    from ..reports.content import settled

    if _empty(reader):
        raise UserError(f"{reader.folder.name}: nothing was recorded in this run", status=3)
    return settled(diagnose(reader), live=reader.live)


def _empty(reader: RunReader) -> bool:
    tables = ("step", "process", "process_sample", "host_sample", "device_sample", "op")
    parts = " + ".join(f"(SELECT count(*) FROM {table})" for table in tables)
    return not reader.rows("SELECT 1 FROM run LIMIT 1") or not reader.rows(f"SELECT {parts}")[0][0]
