"""What every reader of details gets: the run, how it was judged, and the moment shown."""

from __future__ import annotations

from dataclasses import dataclass

from ...profiler.diagnosis.model import RunView
from ...profiler.report import Report
from ...storage.reader import RunReader
from ..model import Column

MINUTE_NS = 60 * 10**9


@dataclass(frozen=True)
class Moment:
    """Times are UTC ns."""

    reader: RunReader
    report: Report
    view: RunView
    pid: int  # the process whose steps are shown
    started_ns: int
    cursor_ns: int
    columns: tuple[Column, ...]

    @property
    def minute_ago_ns(self) -> int:
        return max(self.started_ns, self.cursor_ns - MINUTE_NS)
