"""The figures that are compared, in one table, and what the last run did to each of the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..diagnosis import shares as division
from ..diagnosis.statistics import quantile
from ..report import SHARES, Report
from . import chance
from .model import Against, Metric
from .sides import Block, Side, price_per_hour

WORK = ("compute", "memory", "host")  # a step's own work, which only a capture tells apart
SHOWN_SHARE = 0.005  # shares below this in every run are left out


@dataclass(frozen=True)
class Compared:
    """A figure of the report, and the same figure of some blocks where chance can be told."""

    name: str
    unit: str
    value: Callable[[Report], float | None]
    of_blocks: Callable[[Side], chance.Figure] | None = None
    by_difference: bool = False


def throughput(blocks: Sequence[Block]) -> float | None:
    """Samples per second."""
    samples = [b.samples for b in blocks if b.samples is not None]
    seconds = sum(b.duration_s for b in blocks)
    return sum(samples) / seconds if len(samples) == len(blocks) and seconds > 0 else None


def step_rate(blocks: Sequence[Block]) -> float | None:
    """Steps per second."""
    seconds = sum(b.duration_s for b in blocks)
    return sum(b.steps for b in blocks) / seconds if seconds > 0 else None


def _step_ms(q: float) -> chance.Figure:
    return lambda blocks: quantile([ms for b in blocks for ms in b.step_ms], q)


def _share(name: str) -> Callable[[Side], chance.Figure]:
    def of(side: Side) -> chance.Figure:
        how = side.view.division

        def figure(blocks: Sequence[Block]) -> float | None:
            sums = [sum(column) for column in zip(*(b.raw for b in blocks), strict=True)]
            return division.divide(sums, how)[0].get(name)

        return figure if how is not None else lambda blocks: None

    return of


def _use(name: str) -> Callable[[Report], float | None]:
    return lambda report: report.utilisation.get(name)


def usd(report: Report) -> float | None:
    """Price of the whole run: the report's own, else by list prices."""
    price, wall = price_per_hour(report)[0], report.run.wall_s
    if report.cost.usd is not None:
        return report.cost.usd
    return price * wall / 3600 if price is not None and wall is not None else None


def _share_value(name: str) -> Callable[[Report], float | None]:
    def value(report: Report) -> float | None:
        share = report.time.shares.get(name)
        undivided = name in WORK and report.quality.memory_or_compute is None
        return None if not share and (undivided or name in report.time.not_observed) else share

    return value


COMPARED: tuple[Compared, ...] = (
    Compared("samples_per_s", "samples/s", lambda r: r.time.samples_per_s, lambda s: throughput),
    Compared("steps_per_s", "steps/s", lambda r: r.time.steps_per_s, lambda s: step_rate),
    Compared("step_ms_p50", "ms", lambda r: r.time.step_ms.p50, lambda s: _step_ms(0.5)),
    Compared("step_ms_p95", "ms", lambda r: r.time.step_ms.p95, lambda s: _step_ms(0.95)),
    Compared("epoch_s", "s", lambda r: r.time.epoch_s),
    *(
        Compared(f"share_{name}", "share", _share_value(name), _share(name), by_difference=True)
        for name in SHARES
    ),
    Compared("device_busy", "share", _use("device_busy")),
    Compared("mfu", "share", _use("mfu")),
    Compared("cpu_job_cores", "cores", _use("cpu_job_cores")),
    Compared("device_peak_bytes", "bytes", lambda r: r.memory.device_peak_bytes),
    Compared("host_peak_bytes", "bytes", lambda r: r.memory.host_peak_bytes),
    Compared("power_w", "W", _use("power_w")),
    Compared("energy_j", "J", _use("energy_j")),
    Compared("wall_s", "s", lambda r: r.run.wall_s),
    Compared("usd", "USD", usd),
)


def compared(sides: Sequence[Side], only: Sequence[str] = ()) -> list[Metric]:
    """Every figure that at least one run knows; `only` those named when any are."""
    wanted = [what for what in COMPARED if not only or what.name in only]
    found = (_metric(what, sides) for what in wanted)
    return [metric for metric in found if metric is not None]


def _metric(what: Compared, sides: Sequence[Side]) -> Metric | None:
    values = [_number(what.value(side.report)) for side in sides]
    known = [v for v in values if v is not None]
    if not known or (what.by_difference and max(known) < SHOWN_SHARE):
        return None
    scattered = [_scatter(what, side, seed) for seed, side in enumerate(sides)]
    against = [
        _against(what, side.id, (values[0], value), (scattered[0], scatter))
        for side, value, scatter in zip(sides[1:], values[1:], scattered[1:], strict=True)
    ]
    last = against[-1]
    return Metric(
        what.name, what.unit, values, last.ratio, last.interval, last.significant, against
    )


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def _scatter(what: Compared, side: Side, seed: int) -> list[float]:
    if what.of_blocks is None:
        return []
    return chance.scatter(side.blocks, what.of_blocks(side), seed=seed)


_Pair = tuple[float | None, float | None]


def _against(
    what: Compared, run: str, values: _Pair, scatters: tuple[list[float], list[float]]
) -> Against:
    first, last = values
    if first is None or last is None:
        return Against(run)
    ratio = last / first if first > 0 else None
    interval = chance.ratio_interval(*scatters) if ratio is not None else None
    apart = chance.difference_interval(*scatters)
    difference = last - first
    real = (
        chance.difference_is_real(difference, apart)
        if what.by_difference
        else chance.ratio_is_real(ratio, interval)
    )
    return Against(run, ratio, interval, difference, apart, real)
