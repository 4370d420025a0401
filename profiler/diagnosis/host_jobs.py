"""The jobs that the host's recorder saw, out of its processes and their samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..report import HostJob
from .figures import iso

if TYPE_CHECKING:
    from .view import Reader

MOST = 200  # newest jobs

_JOBS = """
WITH member AS (
    SELECT pid, started_ns, ended_ns, f->>'$[0].job' AS job, f->>'$[0].name' AS name,
           f->>'$[0].user' AS owner, f->>'$[0].command' AS command
    FROM (SELECT *, facts AS f FROM process) WHERE f->>'$[0].k' = 'job'
), used AS (
    SELECT m.job, s.t_ns, sum(s.cpu_cores) AS cores,
           sum(coalesce(s.pss_bytes, s.rss_bytes)) AS held
    FROM process_sample s JOIN member m ON s.pid = m.pid
        AND s.t_ns BETWEEN m.started_ns - 1000000000 AND coalesce(m.ended_ns, s.t_ns)
    GROUP BY ALL
)
SELECT m.job, any_value(m.name), any_value(m.owner), any_value(m.command), min(m.started_ns),
       CASE WHEN count(*) = count(m.ended_ns) THEN max(m.ended_ns) END, count(*),
       (SELECT avg(cores) FROM used WHERE used.job = m.job),
       (SELECT max(held) FROM used WHERE used.job = m.job)
FROM member m GROUP BY m.job ORDER BY min(m.started_ns) DESC LIMIT ?
"""


def jobs(reader: Reader) -> list[HostJob]:
    """The newest first."""
    return [_job(row) for row in reader.rows(_JOBS, (MOST,))]


def _job(row: tuple[Any, ...]) -> HostJob:
    _, name, user, command, started, ended, count, cores, held = row
    return HostJob(
        name=name or "",
        user=user or "",
        command=command or "",
        started_at=iso(started),
        ended_at=iso(ended),
        wall_s=(ended - started) / 1e9 if ended else None,
        processes=count,
        cpu_cores=cores,
        host_peak_bytes=None if held is None else int(held),
    )
