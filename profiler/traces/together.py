"""Which files make one run: the ranks of one job, and the nvidia-smi logs beside them."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from ..accelerators.catalogue import Accelerator
from . import nvidia_smi
from .chrome import BadTrace
from .imported import Imported, import_trace
from .smi_run import beside, import_log, text_of

LOOKED_AT = 4096  # bytes, to tell the kinds of files apart
SUFFIXES = (".json", ".json.gz", ".csv", ".csv.gz", ".log", ".log.gz", ".txt")
MOST_FILES = 4096  # of a folder
OTHER_PID = 10_000_000  # no Linux has so large a pid: for ranks of two hosts with the same one


def files_of(path: Path) -> list[Path]:
    """The file itself, or what a folder holds that may be a trace or a log."""
    if not path.is_dir():
        return [path]
    found = sorted(p for p in path.iterdir() if p.name.endswith(SUFFIXES) and p.is_file())
    if not found:
        raise BadTrace(f"{path}: no traces in this folder ({', '.join(SUFFIXES)})")
    return found[:MOST_FILES]


def read_any(path: Path, known: Accelerator | None = None) -> tuple[Imported, bool]:
    """(its rows, whether it is a log). Raises BadTrace, OSError."""
    if path.exists() and not path.is_file():
        raise BadTrace(f"{path}: not a regular file")
    with path.open("rb") as file:
        start = file.read(LOOKED_AT)
    if start.startswith(b"\x1f\x8b"):
        try:
            with gzip.open(path) as packed:
                start = packed.read(LOOKED_AT)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            start = b"{"  # cut off very early: the reader of traces says so
    text = text_of(start)
    if text.lstrip().startswith(("{", "[")):
        return import_trace(path, known), False
    if nvidia_smi.looks_like(text):
        return import_log(path, known), True
    raise BadTrace(f"{path}: neither a Chrome trace (JSON, also gzip) nor a log of nvidia-smi")


def runs_of(read: list[tuple[Imported, bool]]) -> list[list[Imported]]:
    """The runs: ranks of one job together, a log with the one run there is, all else alone."""
    traces = [found for found, is_log in read if not is_log]
    logs = [found for found, is_log in read if is_log]
    jobs: list[list[Imported]] = []
    for trace in sorted(traces, key=lambda t: (t.started_ns, t.rank or 0)):
        job = next((job for job in jobs if _is_of(trace, job)), None)
        if job is None:
            jobs.append([trace])
        else:
            job.append(trace)
    given = {id(trace): at for at, trace in enumerate(traces)}
    jobs.sort(key=lambda job: min(given[id(trace)] for trace in job))
    for job in jobs:
        job.sort(key=lambda t: t.rank or 0)
        _tell_apart(job)
    alone = [[log] for log in logs]
    if len(jobs) == 1:
        jobs[0] += [part for log in logs if (part := beside(log, jobs[0])) is not None]
        alone = []
    for job in [*jobs, *alone]:
        for part in job:
            part.finish()
    return jobs + alone


def _is_of(trace: Imported, job: list[Imported]) -> bool:
    """Another rank of the same job: a second trace of a rank is another stretch of time."""
    if trace.rank is None or job[0].rank is None or trace.world != job[0].world:
        return False
    return all(other.rank != trace.rank for other in job)


def _tell_apart(job: list[Imported]) -> None:
    """Processes and devices of several hosts may have the same numbers."""
    pids = [t.pid for t in job]
    devices = [t.device for t in job if t.device is not None]
    for number, trace in enumerate(job):
        if len(set(pids)) < len(job):
            _renumber(trace, "pid", trace.pid + OTHER_PID * (number + 1))
        if len(set(devices)) < len(devices) and trace.device is not None:
            _renumber(trace, "device", number)
    if len(job) > 1 and (world := job[0].world) and world > len(job):
        for trace in job:  # the report shows what is told of the rank that it judges
            trace.notes.append(f"traces of {len(job)} of the job's {world} ranks")


def _renumber(trace: Imported, column: str, value: int) -> None:
    setattr(trace, column, value)
    for rows in trace.rows.values():
        for row in rows:
            if column in row:
                row[column] = value
