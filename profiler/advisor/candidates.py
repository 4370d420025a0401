"""One accelerator's answer, and what compares two of them."""

from __future__ import annotations

from typing import Any

import msgspec

from . import language

SAME = 1.05  # times within this are the same for a decision
_FEWEST_ALIKE = 3  # accelerators of like time that tell that none of them sets the pace


class Time(msgspec.Struct, frozen=True):
    """A step time in ms."""

    low: float
    mid: float
    high: float


class Candidate(msgspec.Struct):
    """One accelerator; unknown is null. Prices are list prices of whole devices."""

    id: str
    count: int
    step_ms: Time | None
    samples_per_s: float | None
    bottleneck: str | None
    fits: bool | None
    memory_needed_bytes: int | None
    largest_batch: int | None
    usd_per_hour: float | None
    usd_per_epoch: float | None
    run_s: float | None
    usd_run: float | None
    energy_kwh: float | None
    rank_time: int | None = None
    rank_cost: int | None = None
    porting: list[str] = []
    porting_weight: str | None = None  # none | small | medium | large; null: nothing is known
    name: str = ""
    current: bool = False
    epoch_s: float | None = None
    speedup: float | None = None  # over the recorded run
    precision: str | None = None  # that the matrix work runs in there
    price_source: str | None = None
    energy_usd: float | None = None  # of the devices; where the price of a kWh is known
    co2_kg: float | None = None
    within_budget: bool | None = None
    within_deadline: bool | None = None
    notes: list[str] = []
    samples_per_s_largest: float | None = None  # at the largest batch that fits
    serving: language.Serving | None = None  # of a language model that generates
    tokens_per_s: float | None = None  # of one that trains
    mfu: float | None = None  # model FLOPs utilisation, 0..1


class Limits(msgspec.Struct, frozen=True):
    """What the run may cost and take, as asked."""

    budget_usd: float | None
    deadline_s: float | None


class Advice(msgspec.Struct):
    """The answer; schema accelprof.advise/1."""

    headline: str
    basis: dict[str, Any]
    accelerators: list[Candidate]
    verdict: str | None  # upgrade-would-not-help | null
    speedup_limit: float | None  # of an infinitely fast accelerator
    notes: list[str] = []
    memory: dict[str, Any] | None = None  # a device's, part by part, at the run's batch
    limits: Limits | None = None
    schema: str = "accelprof.advise/1"


def allowed(row: Candidate) -> bool:
    """Whether a row may be recommended: projected, fits as far as known, inside the limits."""
    return (
        row.step_ms is not None
        and row.fits is not False
        and row.within_budget is not False
        and row.within_deadline is not False
    )


def per_sample(row: Candidate) -> float:
    """Time of the same work, in ms."""
    return row.step_ms.mid / row.count if row.step_ms else float("inf")


def cost(row: Candidate) -> float:
    """Cost of the same work, in USD-hours of a step."""
    return (row.usd_per_hour or 0.0) * per_sample(row)


def most_gain(rows: list[Candidate]) -> float | None:
    """The largest part of the step time that another accelerator saves; None when none is known."""
    gains = [1.0 - 1.0 / r.speedup for r in rows if r.speedup and not r.current and allowed(r)]
    return max(gains, default=None)


def level(rows: list[Candidate]) -> bool:
    """Whether slow and fast accelerators take the same time: then none of them sets the pace."""
    times = [per_sample(r) for r in rows if allowed(r)]
    return len(times) >= _FEWEST_ALIKE and max(times) <= SAME * min(times)
