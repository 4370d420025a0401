"""The queries behind a RunView, one function a table; aggregates are taken in SQL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..accelerators.catalogue import catalogue
from .hardware import Accelerator
from .model import Ceilings, DeviceUse, Host, Job, OpRow, Workers

if TYPE_CHECKING:
    from .view import Reader

Span = tuple[int, int]
KEPT_POINTS = 400


def _json(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    try:
        found = json.loads(value) if isinstance(value, str) else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


RUN_COLUMNS = (
    "id", "name", "command", "cwd", "host", "started_ns", "ended_ns", "exit_status", "state",
    "tags", "note", "git_commit", "git_dirty", "environment", "settings", "quality",
)  # fmt: skip


def run_row(reader: Reader) -> dict[str, Any]:
    rows = reader.rows(f"SELECT {', '.join(RUN_COLUMNS)} FROM run LIMIT 1")
    if not rows:
        return dict.fromkeys(RUN_COLUMNS)
    found = dict(zip(RUN_COLUMNS, rows[0], strict=True))
    for name in ("environment", "settings", "quality"):
        found[name] = _json(found[name])
    return found


def processes(reader: Reader) -> list[dict[str, Any]]:
    names = ("pid", "ppid", "role", "rank", "worker", "hooks", "spans", "spans_lost", "facts",
             "started_ns", "ended_ns", "process")  # fmt: skip
    found = []
    for row in reader.rows(f"SELECT {', '.join(names)} FROM process"):
        entry = dict(zip(names, row, strict=True))
        facts = entry["facts"]
        try:
            parsed = json.loads(facts) if isinstance(facts, str) else facts
        except ValueError:
            parsed = []
        listed = parsed if isinstance(parsed, list) else []
        entry["facts"] = [f for f in listed if isinstance(f, dict)]
        found.append(entry)
    return found


def ops(reader: Reader, pid: int | None) -> list[OpRow]:
    """Captured operators of the critical process; of all processes when it has none."""
    rows = reader.rows(
        "SELECT pid, capture, steps, window_ns, name, phase, shapes, dtype, calls, flops, bytes, "
        "time_ns FROM op"
    )
    mine = [r for r in rows if r[0] == pid]
    return [
        OpRow(c, s or 1, w or 0, n, p or "", sh or "", d, k or 1, f, b, t or 0)
        for _, c, s, w, n, p, sh, d, k, f, b, t in (mine or rows)
    ]


def ceilings(reader: Reader, used: Sequence[Accelerator]) -> Ceilings | None:
    """What the run is judged by: measured figures of a CPU (table meta), the details of a device,
    or the datasheet of an accelerator that nobody measured."""
    if not used:
        for (value,) in reader.rows("SELECT value FROM meta WHERE key = 'calibration'"):
            found = _ceilings(_json(value), "calibrated")
            if found:
                return found
        return None
    for one in used:
        given = one.details.get("ceilings")
        if isinstance(given, dict):
            found = _ceilings(given, str(given.get("source") or "datasheet"))
            if found:
                return found
    sheet = catalogue().get(used[0].catalogue or "")
    if sheet is None or not sheet.bytes_per_s:
        return None
    return _ceilings({"flops": sheet.flops, "bytes_per_s": sheet.bytes_per_s}, "datasheet")


def _ceilings(data: dict[str, Any], source: str) -> Ceilings | None:
    flops = {k: float(v) for k, v in (data.get("flops") or {}).items() if _positive(v)}
    moved = _rate(data.get("bytes_per_s"))
    if not flops or moved is None:
        return None
    # Reading alone is faster than writing too; the better of the two is what memory can do
    best = max(moved, _rate(data.get("read_bytes_per_s")) or 0.0)
    vector = {k: float(v) for k, v in (data.get("vector_flops") or {}).items() if _positive(v)}
    launch = _rate(data.get("launch_s"))
    notes = data.get("notes")
    return Ceilings(
        flops, best, vector, launch or 1e-6, source,
        tuple(str(n) for n in notes) if isinstance(notes, list) else (),
    )  # fmt: skip


def _rate(value: Any) -> float | None:
    return float(value) if _positive(value) else None


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


# Of a handful of samples a share says nothing; a zombie does nothing more
FEWEST_STATES = 10
_RUNNING = (
    "CASE WHEN count(state) >= "
    f"{FEWEST_STATES} THEN avg(CASE WHEN state = 'running' THEN 1 WHEN state IS NULL OR "
    "state = 'zombie' THEN NULL ELSE 0 END) END"
)


def workers(reader: Reader, span: Span, procs: Sequence[dict[str, Any]]) -> Workers | None:
    """How batches were made in the steady part; None when no batch was seen made."""
    rows = reader.rows(
        # Workers of one number and parent follow each other, epoch after epoch
        "SELECT worker >= 0, count(DISTINCT {'of': coalesce(p.ppid, 0), 'worker': worker}), "
        "count(*), avg(fetch_ns), avg(collate_ns), avg(cpu_ns) FROM worker_batch LEFT JOIN "
        "(SELECT pid, max(ppid) AS ppid FROM process GROUP BY pid) p USING (pid) "
        "WHERE t_ns BETWEEN ? AND ? GROUP BY 1 ORDER BY 3 DESC",
        span,
    )
    if not rows:
        return None
    separate, count, batches, fetch, collate, cpu = rows[0]
    use = _worker_processes(reader, span, procs, count) if separate else (None,) * 6
    return Workers(
        in_process=not separate, count=count, batches=batches, fetch_s=(fetch or 0) / 1e9,
        collate_s=collate / 1e9 if collate is not None else None,
        cpu_s=cpu / 1e9 if cpu is not None else None,
        threads=use[0], cpu_cores=use[1], disk_sleep_share=use[2], read_bytes_per_s=use[3],
        disk_bytes_per_s=use[4], running_share=use[5],
    )  # fmt: skip


def _worker_processes(
    reader: Reader, span: Span, procs: Sequence[dict[str, Any]], count: int
) -> tuple[float | None, ...]:
    """Means of a worker process, and what `count` of them read together."""
    pids = [p["pid"] for p in procs if p["role"] == "worker"]
    if not pids:
        return (None,) * 6
    marks = ", ".join(str(int(p)) for p in pids)
    rows = reader.rows(
        "SELECT avg(threads), avg(cpu_cores), avg(CASE WHEN state LIKE 'D%' OR state = "
        "'disk-sleep' THEN 1 ELSE 0 END), avg(rchar_bytes_per_s) * ?, "
        f"avg(read_bytes_per_s) * ?, {_RUNNING} "
        f"FROM process_sample WHERE pid IN ({marks}) AND t_ns BETWEEN ? AND ?",
        (count, count, *span),
    )
    return rows[0] if rows else (None,) * 6


def host(reader: Reader, span: Span) -> Host:
    row = reader.rows(
        "SELECT count(*), avg(cpu_share), avg(iowait_share), avg(psi_cpu_share), "
        "avg(psi_io_share), max(memory_total_bytes), "
        "arg_max(memory_total_bytes - memory_used_bytes, t_ns), max(cgroup_memory_limit_bytes), "
        "max(shm_used_bytes / nullif(shm_total_bytes, 0)), max(shm_total_bytes), "
        "max(cgroup_cpu_quota_cores), avg(cgroup_throttled_share), max(len(cpu_core_share)), "
        "avg(net_rx_bytes_per_s), avg(cpu_power_w) "
        # A file of an older version has no such column
        "FROM (FROM host_sample UNION ALL BY NAME SELECT NULL::DOUBLE cpu_power_w WHERE false) "
        "WHERE t_ns BETWEEN ? AND ?",
        span,
    )[0]
    if not row[0]:
        return Host(cpus=_cpus(reader, None, None))
    return Host(
        cpus=_cpus(reader, row[12], row[10]), samples=row[0], cpu_share=row[1],
        iowait_share=row[2], psi_cpu_share=row[3], psi_io_share=row[4],
        memory_total_bytes=row[5], memory_available_bytes=row[6], memory_limit_bytes=row[7],
        shm_used_peak_share=row[8], shm_total_bytes=row[9], quota_cores=row[10],
        throttled_share=row[11], received_bytes_per_s=row[13], power_w=row[14],
    )  # fmt: skip


def _cpus(reader: Reader, cores: int | None, quota: float | None) -> int | None:
    rows = reader.rows("SELECT environment FROM run LIMIT 1")
    environment = _json(rows[0][0]) if rows else {}
    known = next(
        (environment[k] for k in ("cpus_usable", "cpus", "cpu_count")
         if isinstance(environment.get(k), int)), cores,
    )  # fmt: skip
    if known is not None and quota:
        return max(1, min(int(known), int(quota)))
    return int(known) if known is not None else None


def job(reader: Reader, span: Span, procs: Sequence[dict[str, Any]], critical: int | None) -> Job:
    """CPU and memory of the job's processes; the launcher's own is not in process_sample."""
    sums = reader.rows(
        "SELECT avg(cores) FROM (SELECT t_ns, sum(cpu_cores) AS cores FROM process_sample "
        "WHERE t_ns BETWEEN ? AND ? GROUP BY t_ns)",
        span,
    )
    peak = reader.rows(
        "SELECT max(held) FROM (SELECT sum(coalesce(pss_bytes, rss_bytes)) AS held "
        "FROM process_sample GROUP BY t_ns)"
    )
    main = critical
    if main is None:
        main = next((p["pid"] for p in procs if p["role"] in ("main", "rank")), None)
    workers_ = [p["pid"] for p in procs if p["role"] == "worker"]
    cores, running = _main_use(reader, span, main)
    return Job(
        cpu_cores=sums[0][0] if sums else None,
        main_cpu_cores=cores, main_running=running,
        peak_bytes=int(peak[0][0]) if peak and peak[0][0] is not None else None,
        main_rss=_rss(reader, span, [main] if main is not None else []),
        workers_rss=_rss(reader, span, workers_),
        workers_died=_died(reader), holders=_holders(reader, procs),
    )  # fmt: skip


def _main_use(reader: Reader, span: Span, pid: int | None) -> tuple[float | None, float | None]:
    """(cores, share of samples in state R) of the training process."""
    if pid is None:
        return None, None
    rows = reader.rows(
        f"SELECT avg(cpu_cores), {_RUNNING} FROM process_sample "
        "WHERE pid = ? AND t_ns BETWEEN ? AND ?",
        (pid, *span),
    )
    return rows[0] if rows else (None, None)


def _rss(reader: Reader, span: Span, pids: Sequence[int]) -> tuple[tuple[int, int], ...]:
    if not pids:
        return ()
    marks = ", ".join(str(int(p)) for p in pids)
    rows = reader.rows(
        "SELECT t_ns, sum(coalesce(pss_bytes, rss_bytes)) FROM process_sample "
        f"WHERE pid IN ({marks}) AND t_ns BETWEEN ? AND ? GROUP BY t_ns ORDER BY t_ns",
        span,
    )
    every = max(1, len(rows) // KEPT_POINTS)
    return tuple((t, int(b)) for t, b in rows[::every] if b is not None)


def _died(reader: Reader) -> tuple[str, ...]:
    rows = reader.rows("SELECT data FROM event WHERE kind = 'worker-died' ORDER BY t_ns")
    return tuple(str(_json(d).get("how") or _json(d).get("signal") or "unknown") for (d,) in rows)


def _holders(reader: Reader, procs: Sequence[dict[str, Any]]) -> tuple[tuple[str, int], ...]:
    """The processes that held most at their peak, the largest first."""
    roles = {p["pid"]: p for p in procs}
    rows = reader.rows(
        "SELECT pid, max(coalesce(pss_bytes, rss_bytes)) FROM process_sample GROUP BY pid "
        "ORDER BY 2 DESC NULLS LAST LIMIT 3"
    )
    found = []
    for pid, held in rows:
        about = roles.get(pid, {})
        if held:
            found.append((f"{_role(about)} (PID {pid})", int(held)))
    return tuple(found)


def _role(process: dict[str, Any]) -> str:
    names = {"main": "the training process", "rank": f"rank {process.get('rank')}",
             "worker": f"loader worker {process.get('worker')}"}  # fmt: skip
    return names.get(process.get("role") or "", "a process")


def events(reader: Reader) -> tuple[dict[str, Any], ...]:
    rows = reader.rows("SELECT t_ns, kind, pid, rank, data FROM event ORDER BY t_ns LIMIT 1000")
    return tuple(
        {"t_ns": t, "kind": k, "pid": p, "rank": r, "data": _json(d)} for t, k, p, r, d in rows
    )


def device(reader: Reader, span: Span, seen: Sequence[Accelerator]) -> DeviceUse:
    """Means of the device counters over the devices that the job used."""
    used = [d for d in seen if d.used]
    if not used:
        return DeviceUse()
    marks = ", ".join(str(d.index) for d in used)
    row = reader.rows(
        "SELECT count(*), avg(busy_share), avg(sm_share), avg(tensor_share), avg(dram_share), "
        "avg(memory_busy_share), max(memory_used_bytes), max(memory_total_bytes), avg(power_w) "
        f"FROM device_sample WHERE t_ns BETWEEN ? AND ? AND device IN ({marks})",
        span,
    )[0]
    energy = [d.energy_j for d in used if d.energy_j is not None]
    return DeviceUse(
        kind=used[0].kind, name=used[0].name, samples=row[0], busy_share=row[1],
        sm_share=row[2], tensor_share=row[3], dram_share=row[4], memory_busy_share=row[5],
        memory_peak_bytes=row[6], memory_total_bytes=row[7] or used[0].memory_bytes, power_w=row[8],
        energy_j=sum(energy) if len(energy) == len(used) else None,
    )  # fmt: skip


def gaps(reader: Reader) -> tuple[tuple[str, str | None, int | None, str], ...]:
    """(source, metric, device, reason) of what could not be read."""
    rows = reader.rows("SELECT DISTINCT source, metric, device, reason FROM gap LIMIT 500")
    return tuple((str(s), m, d, str(r)) for s, m, d, r in rows)
