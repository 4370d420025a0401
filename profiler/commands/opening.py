"""Opening the run that a user named, and its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...storage import library
from ...storage.reader import RunReader, open_run
from ..errors import UserError
from ..report import Report

if TYPE_CHECKING:
    from ..diagnosis.model import RunView


def opened(run: str) -> RunReader:
    """A reader of the run. Raises `RunNotFound`, `BadRunFile`."""
    return open_run(library.resolve(run))


def report_of(reader: RunReader) -> Report:
    """The report of an opened run. Raises `UserError` (3) when nothing was recorded."""
    return examined(reader)[0]


def examined(reader: RunReader, *others: RunReader) -> tuple[Report, RunView]:
    """The report of an opened run and what it was judged from. As `report_of`.

    `others`: the same job's other nodes. Raises `UserError` when they are runs of other jobs.
    """
    from ..diagnosis import examine
    from ..reports.content import settled

    for one in (reader, *others):
        require_content(one)
    report, view = examine(reader, *others)
    _require_one_job(report)
    return settled(report, live=reader.live), view


def _require_one_job(report: Report) -> None:
    hosts: dict[int, str] = {}
    for row in report.ranks:
        rank, host = row.get("rank"), row.get("host")
        if rank is None or host is None:
            continue
        if rank in hosts and hosts[rank] != host:
            raise UserError(f"these are no nodes of one job: {hosts[rank]} and {host} both have a "
                            f"rank {rank} (runs side by side: accelprof compare)")  # fmt: skip
        hosts[rank] = host


def require_content(reader: RunReader) -> None:
    """Raises `UserError` (3) when nothing was recorded."""
    if _empty(reader):
        raise UserError(f"{reader.folder.name}: nothing was recorded in this run", status=3)


def _empty(reader: RunReader) -> bool:
    tables = ("step", "process", "process_sample", "host_sample", "device_sample", "op")
    parts = " + ".join(f"(SELECT count(*) FROM {table})" for table in tables)
    return not reader.rows("SELECT 1 FROM run LIMIT 1") or not reader.rows(f"SELECT {parts}")[0][0]
