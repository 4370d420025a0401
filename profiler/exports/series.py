"""The Series of a run: steps divided by the diagnosis' own rule, samples averaged in SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

from ...storage.reader import RunReader
from ..diagnosis import roofline, sources
from ..diagnosis import shares as division
from ..diagnosis.model import RunView, Step
from ..diagnosis.statistics import quantile
from ..series import Line, OpPoint, Outlier, Roof, Series, Stretch
from ..traces.kineto import COPY_PHASE

STRETCHES = 140  # at most about so many of each line
MOST_OUTLIERS = 40
MOST_DEVICES = 8
MOST_OPS = 60
OUTLIER_TIMES = 2.0  # the usual step
_PHASES = (
    ("input", ("data_wait_ns", "iterator_ns")), ("copy to the device", ("h2d_ns",)),
    ("forward", ("forward_ns",)), ("backward", ("backward_ns",)),
    ("optimizer", ("optimizer_ns",)), ("checkpoint", ("checkpoint_ns",)),
    ("logging", ("logging_ns",)), ("evaluation", ("evaluation_ns",)),
    ("collective", ("collective_ns",)), ("outside of any phase", ("pre_forward_ns", "gap_ns")),
)  # fmt: skip


def read(reader: RunReader, view: RunView) -> Series:
    """The series of an opened run. `view`: what its report was judged from."""
    steps = [s for s in view.steps if not s.captured and s.duration_ns > 0]
    started, ended = _bounds(view, steps)
    width = max(1, (ended - started) // STRETCHES)
    how = view.division or division.Division(
        None, view.device, view.stacks, bool(view.loaders), None
    )
    ops, roof = operators(reader, view)
    use, memory, limits, power = _samples(reader, view, started, width)
    return Series(
        length_s=(ended - started) / 1e9,
        stretches=tuple(_stretches(steps, how, started, width)),
        outliers=_outliers(steps, started), use=use, memory=memory, memory_limits=limits,
        power=power, ops=ops, roof=roof,
    )  # fmt: skip


def _bounds(view: RunView, steps: Sequence[Step]) -> tuple[int, int]:
    started = view.run.get("started_ns") or (steps[0].t_ns if steps else view.now_ns)
    ended = view.run.get("ended_ns")
    if ended is None:
        ended = steps[-1].t_ns + steps[-1].duration_ns if steps else view.now_ns
    return started, max(ended, started + 1)


# -- steps -------------------------------------------------------------------------------------


def _stretches(
    steps: Sequence[Step], how: division.Division, started: int, width: int
) -> Iterator[Stretch]:
    """Steps in a row until they span `width` ns; a pause between steps ends a stretch, too."""
    group: list[Step] = []
    for step in steps:
        if group and step.t_ns - _end(group[-1]) > width:
            yield _stretch(group, how, started)
            group = []
        group.append(step)
        if _end(step) - group[0].t_ns >= width:
            yield _stretch(group, how, started)
            group = []
    if group:
        yield _stretch(group, how, started)


def _stretch(group: Sequence[Step], how: division.Division, started: int) -> Stretch:
    durations = [s.duration_ns / 1e6 for s in group]
    return Stretch(
        (group[0].t_ns - started) / 1e9, (_end(group[-1]) - started) / 1e9,
        division.divide(division.totals(group), how)[0], len(group),
        quantile(durations, 0.5), quantile(durations, 0.95),
    )  # fmt: skip


def _end(step: Step) -> int:
    return step.t_ns + step.duration_ns


def _outliers(steps: Sequence[Step], started: int) -> tuple[Outlier, ...]:
    """The longest of the steps that take at least OUTLIER_TIMES the usual one, in order."""
    usual = quantile([s.duration_ns for s in steps], 0.5) or 0.0
    far = [s for s in steps if s.duration_ns >= OUTLIER_TIMES * usual]
    longest = sorted(far, key=lambda s: -s.duration_ns)[:MOST_OUTLIERS]
    return tuple(_outlier(s, started) for s in sorted(longest, key=lambda s: s.t_ns))


def _outlier(step: Step, started: int) -> Outlier:
    parts = {
        name: sum(getattr(step, column) or 0 for column in columns) for name, columns in _PHASES
    }
    phase = max(parts, key=lambda name: parts[name])
    known = parts[phase] > 0
    return Outlier(
        (step.t_ns - started) / 1e9, step.step, step.duration_ns / 1e6,
        phase if known else None, parts[phase] / 1e6 if known else None,
    )  # fmt: skip


# -- samples -----------------------------------------------------------------------------------

_Four = tuple[tuple[Line, ...], tuple[Line, ...], dict[str, int], tuple[Line, ...]]


def _samples(reader: RunReader, view: RunView, started: int, width: int) -> _Four:
    """Lines of use, memory and power, and the limits of the memory lines."""
    use, memory, power = [], [], []
    limits: dict[str, int] = {}
    devices = reader.rows(
        "SELECT device, memory_bytes FROM device WHERE kind IN ('gpu', 'tpu') "
        f"AND device IN (SELECT DISTINCT device FROM device_sample) ORDER BY 1 LIMIT {MOST_DEVICES}"
    )
    for device, total in devices:
        columns = ("busy_share", "memory_busy_share", "memory_used_bytes", "power_w")
        lines = _averages(reader, "device_sample", columns, started, width, device=int(device))
        use.append(Line(f"device {device} busy", lines[0]))
        if len(devices) == 1:
            use.append(Line("its memory controller busy", lines[1]))
        name = f"device {device}"
        memory.append(Line(name, lines[2]))
        power.append(Line(name, lines[3]))
        if total:
            limits[name] = int(total)
    cpu, held = _averages(reader, "host_sample", ("cpu_share", "memory_used_bytes"), started, width)
    cores, job = _job(reader, started, width)
    cpus = view.host.cpus
    use.append(Line("the host's CPUs", cpu))
    if cpus:
        use.append(
            Line("the job's CPU time, of all CPUs",
                 tuple((t, None if v is None else v / cpus) for t, v in cores))
        )  # fmt: skip
    memory += [Line("the host", held), Line("the job's processes", job)]
    if view.host.memory_total_bytes:
        limits["the host"] = view.host.memory_total_bytes
    return _known(use), _known(memory), limits, _known(power)


_Points = tuple[tuple[float, float | None], ...]


def _averages(
    reader: RunReader, table: str, columns: Sequence[str], started: int, width: int,
    *, device: int | None = None,
) -> list[_Points]:  # fmt: skip
    means = ", ".join(f"avg({name})" for name in columns)
    where = "WHERE t_ns >= ?" + ("" if device is None else f" AND device = {device}")
    rows = reader.rows(
        f"SELECT ((t_ns - ?) // ?)::BIGINT AS bin, {means} FROM {table} {where} "
        "GROUP BY bin ORDER BY bin",
        (started, width, started),
    )
    return [_points(rows, at, width) for at in range(1, len(columns) + 1)]


def _job(reader: RunReader, started: int, width: int) -> tuple[_Points, _Points]:
    """CPU cores and memory of the job's processes, summed."""
    rows = reader.rows(
        "SELECT ((t_ns - ?) // ?)::BIGINT AS bin, avg(cores), avg(held) FROM (SELECT t_ns, "
        "sum(cpu_cores) AS cores, sum(coalesce(pss_bytes, rss_bytes)) AS held "
        "FROM process_sample WHERE t_ns >= ? GROUP BY t_ns) GROUP BY bin ORDER BY bin",
        (started, width, started),
    )
    return _points(rows, 1, width), _points(rows, 2, width)


def _points(rows: Sequence[tuple[Any, ...]], at: int, width: int) -> _Points:
    return tuple(((row[0] + 0.5) * width / 1e9, row[at]) for row in rows[: 2 * STRETCHES])


def _known(lines: Sequence[Line]) -> tuple[Line, ...]:
    return tuple(line for line in lines if any(v is not None for _, v in line.points))


# -- operators ---------------------------------------------------------------------------------


def operators(reader: RunReader, view: RunView) -> tuple[tuple[OpPoint, ...], Roof | None]:
    """The captured operators that most time goes into, and this machine's ceilings."""
    ceilings = view.ceilings
    if ceilings is None:
        return (), None
    rows = sources.ops(reader, view.steps[0].pid if view.steps else None)
    rows = [row for row in rows if row.phase != COPY_PHASE]
    total = sum(row.time_ns for row in rows) or 1
    known = [row for row in rows if row.time_ns > 0 and _on_a_chart(row.flops, row.bytes)]
    known.sort(key=lambda row: -row.time_ns)
    points = tuple(
        OpPoint(
            row.name, row.phase, row.dtype, (row.flops or 0.0) / (row.bytes or 1.0),
            (row.flops or 0.0) / (row.time_ns / 1e9), row.time_ns / total,
            _bound(roofline.judge(row, ceilings).bound), row.calls,
        )
        for row in known[:MOST_OPS]
    )  # fmt: skip
    return points, Roof(ceilings.flops, ceilings.bytes_per_s, ceilings.source)


def _on_a_chart(flops: float | None, moved: float | None) -> bool:
    """Whether both, and one over the other, have a logarithm."""
    if flops is None or moved is None or not (0 < flops < inf and 0 < moved < inf):
        return False
    return 0 < flops / moved < inf


def _bound(text: str) -> Any:
    return text if text in ("compute", "memory", "latency") else "unknown"
