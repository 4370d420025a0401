"""How batches are made and waited for."""

from __future__ import annotations

from ...profiler.diagnosis.capacity import capacity
from ..model import InputView, Worker
from .moment import Moment

# Handing over a batch that is ready takes 0.05 to 0.5 ms; a longer wait found the queue empty
WAITED_NS = 1_000_000


def read(moment: Moment) -> InputView:
    """The loaders, their workers in the last minute, and the waits of training."""
    view = moment.view
    steps, waited, p50, p95 = moment.reader.rows(
        "SELECT count(data_wait_ns), count(*) FILTER (WHERE data_wait_ns > ?), "
        "quantile_cont(data_wait_ns, 0.5) / 1e6, quantile_cont(data_wait_ns, 0.95) / 1e6 "
        "FROM step WHERE pid = ? AND t_ns BETWEEN ? AND ?",
        (WAITED_NS, moment.pid, moment.minute_ago_ns, moment.cursor_ns),
    )[0]
    return InputView(
        loaders=view.loaders, chosen=view.loader, made=view.workers, room=capacity(view),
        workers=_workers(moment), steps=steps, waited=waited, wait_p50_ms=p50, wait_p95_ms=p95,
        waits=tuple(column.shares.get("input") for column in moment.columns),
    )  # fmt: skip


def _workers(moment: Moment) -> tuple[Worker, ...]:
    since = moment.minute_ago_ns
    rows = moment.reader.rows(
        "SELECT worker, pid, count(*), avg(fetch_ns) / 1e6, max(fetch_ns) / 1e6, "
        "avg(collate_ns) / 1e6, sum(cpu_ns) / nullif(sum(fetch_ns) FILTER (WHERE cpu_ns IS NOT "
        "NULL), 0), sum(fetch_ns) FROM worker_batch WHERE t_ns BETWEEN ? AND ? GROUP BY worker, "
        "pid ORDER BY worker, pid",
        (since, moment.cursor_ns),
    )
    length = max(1, moment.cursor_ns - since)
    return tuple(
        Worker(number if number is not None else -1, pid, count, fetch, slowest, collate, cpu,
               min(1.0, spent / length) if spent is not None else None)
        for number, pid, count, fetch, slowest, collate, cpu, spent in rows
    )  # fmt: skip
