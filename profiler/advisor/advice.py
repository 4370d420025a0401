"""The advice on a run: every accelerator projected, priced, ranked, and one sentence on top."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..accelerators.catalogue import Accelerator, catalogue, find
from ..accelerators.prices import Prices, cheapest, prices
from ..errors import UserError
from . import curves, growth, language, memory, porting
from .basis import Basis
from .candidates import (
    SAME,
    Advice,
    Candidate,
    Limits,
    Time,
    allowed,
    cost,
    level,
    most_gain,
    per_sample,
)
from .headline import STAYS, WAITS, headline, waiting
from .projection import Projected, project, why_not
from .transfer import Range

SMALL_GAIN = 0.10  # a step time saved of less than this is no reason to move
IDLE_POWER = 0.35  # of the TDP that a waiting accelerator draws


@dataclass(frozen=True)
class Question:
    """What the user asked: the length of the run, limits, and which accelerators."""

    epochs: float | None = None
    steps: float | None = None
    samples: float | None = None
    precision: str | None = None
    only: Sequence[str] = ()
    count: int | None = None
    budget_usd: float | None = None
    deadline_s: float | None = None
    prices: Path | None = None
    batch: int | None = None  # sequences at once, of a language model that generates
    context: int | None = None  # tokens of each


@dataclass(frozen=True)
class _Case:
    basis: Basis
    asked: Question
    steps: float | None
    prices: Prices
    need: memory.Need | None
    model: language.Model | None


def advise(basis: Basis, asked: Question) -> Advice:
    """Projects the run on every accelerator asked for."""
    need = memory.need(basis)
    case = _Case(basis, asked, run_steps(basis, asked), prices(asked.prices), need,
                 language.model(basis))  # fmt: skip
    rows = [_candidate(case, device) for device in _devices(asked)]
    _rank(rows)
    rows.sort(key=lambda r: (r.rank_time is None, r.rank_time or 0, r.id))
    limit = speedup_limit(basis)
    helps_not = _helps_not(basis, rows, limit)
    return Advice(
        headline=headline(basis, rows, limit, helps_not), basis=_facts(basis, case.steps),
        accelerators=rows, verdict="upgrade-would-not-help" if helps_not else None,
        speedup_limit=limit, notes=_notes(basis),
        memory=memory.parts(need, basis, asked.count or basis.count) if need else None,
        limits=Limits(asked.budget_usd, asked.deadline_s)
        if (asked.budget_usd, asked.deadline_s) != (None, None) else None,
    )  # fmt: skip


def _facts(basis: Basis, steps: float | None) -> dict[str, Any]:
    return {
        "run": basis.run, "evidence": basis.evidence, "precision": basis.precision,
        "batch": basis.batch, "device": basis.source_name, "count": basis.count,
        "step_ms": basis.step_s * 1e3 if basis.step_s else None,
        "covered": round(basis.covered, 3), "steps": steps,
    }  # fmt: skip


def run_steps(basis: Basis, asked: Question) -> float | None:
    """Steps of the run in question, at the recorded run's samples a step."""
    given = [x for x in (asked.epochs, asked.steps, asked.samples) if x is not None]
    if len(given) > 1:
        raise UserError("--epochs, --steps and --samples exclude each other")
    if asked.steps is not None:
        return asked.steps
    if asked.epochs is not None:
        if basis.epoch_steps is None:
            raise UserError("--epochs: this run does not tell the length of an epoch; use --steps")
        return asked.epochs * basis.epoch_steps
    if asked.samples is not None:
        if not basis.samples_per_step:
            raise UserError("--samples: this run does not tell its samples a step; use --steps")
        return asked.samples / basis.samples_per_step
    return float(basis.steps_total) if basis.steps_total else None


def _devices(asked: Question) -> list[Accelerator]:
    if not asked.only:
        return list(catalogue().values())
    wanted = [find(name) for name in asked.only]
    return list({device.id: device for device in wanted}.values())


def _candidate(case: _Case, device: Accelerator) -> Candidate:
    basis, asked, need = case.basis, case.asked, case.need
    count = asked.count or basis.count
    projected = project(basis, device, count=count, precision=asked.precision)
    offer = cheapest(device.id, case.prices.offer)
    price = offer.usd_per_device_hour if offer else None
    row = Candidate(
        id=device.id, name=device.name, count=count, step_ms=None, samples_per_s=None,
        bottleneck=None, fits=need.fits(device.memory_bytes) if need else None,
        memory_needed_bytes=int(need.total_bytes) if need else None,
        largest_batch=need.largest_batch(basis.batch, device.memory_bytes) if need else None,
        usd_per_hour=price * count if price is not None else None, usd_per_epoch=None,
        run_s=None, usd_run=None, energy_kwh=None, current=device is basis.source,
        price_source=offer.label if offer else None,
    )  # fmt: skip
    if wanted := asked.precision or basis.precision:
        row.precision = curves.usable_precision(device, wanted)
    row.porting, row.porting_weight = porting.work(basis, device, asked.precision)
    _language(row, case, device, price)
    if projected is not None:
        projected = _of_tokens(projected, case, device)
        _time(row, case, device, projected)
        _energy(row, device, projected, case.prices)
        _limits(row, asked)
        if row.largest_batch and row.serving is None:
            row.samples_per_s_largest = growth.samples_per_s(
                basis, device, projected, row.largest_batch, count=count, precision=asked.precision
            )
    else:
        row.notes = [f"not projected: {why_not(basis, device, asked.precision)}"]
    return row


def _time(row: Candidate, case: _Case, device: Accelerator, projected: Projected) -> None:
    step, basis, steps = projected.step, case.basis, case.steps
    row.step_ms = Time(step.low * 1e3, step.mid * 1e3, step.high * 1e3)
    row.bottleneck = projected.bottleneck
    row.speedup = basis.step_s * row.count / basis.count / step.mid if basis.step_s else None
    if basis.batch:
        row.samples_per_s = basis.batch * row.count / step.mid
    if basis.trains and basis.attention and row.samples_per_s:
        row.tokens_per_s = row.samples_per_s * basis.attention.context
        row.mfu = language.mfu(basis.operators, step.mid, device)
    share = basis.count / row.count  # more devices take more samples a step
    if basis.epoch_steps:
        row.epoch_s = basis.epoch_steps * share * step.mid
    if steps:
        row.run_s = steps * share * step.mid
    if row.usd_per_hour is not None:
        row.usd_per_epoch = row.usd_per_hour * row.epoch_s / 3600 if row.epoch_s else None
        row.usd_run = row.usd_per_hour * row.run_s / 3600 if row.run_s else None


def _language(row: Candidate, case: _Case, device: Accelerator, price: float | None) -> None:
    """Tokens of a model that generates; the step itself is projected as any other."""
    if case.model is not None:
        seen, asked = case.model.shape, case.asked
        batch, context = asked.batch or seen.batch, asked.context or seen.context
        row.serving = case.model.serving(device, batch, context, price)
        row.largest_batch = row.serving.largest_batch  # by keys and values, not by activations


def _of_tokens(projected: Projected, case: _Case, device: Accelerator) -> Projected:
    """A step that generates a token, from a known device: by the bytes that it reads. Operator by
    operator a large cache would seem to keep weights that the next layers throw out again."""
    model, basis = case.model, case.basis
    if model is None or not model.shape.decodes or basis.source in (None, device):
        return projected
    token = model.token_s(device, model.shape.batch, model.shape.context)
    work_s = projected.parts_s["device"] + projected.parts_s["host"]
    if token is None or not work_s:
        return projected
    factor = max(token[0], projected.step.mid - work_s + token[0]) / projected.step.mid
    step = projected.step
    return replace(
        projected, step=Range(step.low * factor, step.mid * factor, step.high * factor),
        bottleneck=f"{token[1]}-bound",
    )  # fmt: skip


def _energy(row: Candidate, device: Accelerator, projected: Projected, table: Prices) -> None:
    """From the TDP and how long the device works: an estimate, not a measurement."""
    if row.run_s and device.tdp_w:
        power_w = device.tdp_w * (IDLE_POWER + (1.0 - IDLE_POWER) * projected.busy_share)
        row.energy_kwh = power_w * row.count * row.run_s / 3.6e6
        if table.energy.usd_per_kwh is not None:
            row.energy_usd = row.energy_kwh * table.energy.usd_per_kwh
        if table.energy.kg_co2_per_kwh is not None:
            row.co2_kg = row.energy_kwh * table.energy.kg_co2_per_kwh


def _limits(row: Candidate, asked: Question) -> None:
    if asked.budget_usd is not None and row.usd_run is not None:
        row.within_budget = row.usd_run <= asked.budget_usd
    if asked.deadline_s is not None and row.run_s is not None:
        row.within_deadline = row.run_s <= asked.deadline_s


def _rank(rows: list[Candidate]) -> None:
    """By time a sample, and by cost; what does not fit or has no price has no rank there."""
    fit = [r for r in rows if allowed(r)]
    for place, row in enumerate(sorted(fit, key=per_sample), 1):
        row.rank_time = place
    priced = [r for r in fit if r.usd_per_hour is not None]
    for place, row in enumerate(sorted(priced, key=cost), 1):
        row.rank_cost = place


def speedup_limit(basis: Basis) -> float | None:
    """What an infinitely fast accelerator would bring: everything but its own work stays."""
    if not basis.shares:
        return None
    stays = sum(basis.shares.get(n, 0.0) for n in STAYS)
    if basis.shares.get("input", 0.0) and not basis.in_process and basis.loader_s and basis.step_s:
        stays = max(stays, min(1.0, basis.loader_s / basis.step_s))
    return round(1.0 / max(stays, 1e-3), 2)


def _helps_not(basis: Basis, rows: list[Candidate], limit: float | None) -> bool:
    """Whether no accelerator is worth a move: the host or the input sets the pace."""
    gain = most_gain(rows)
    if level(rows) and gain is not None and gain < 1.0 - 1.0 / SAME:
        return True
    if limit is None or waiting(basis) < WAITS:
        return False
    return waiting(basis) >= 0.5 or gain is None or gain < SMALL_GAIN


def _notes(basis: Basis) -> list[str]:
    notes = []
    if basis.on_cpu and basis.operators:
        notes.append(
            "The operators were captured on a CPU: how well its kernels ran says little about an "
            "accelerator's, so the ranges are wide. A capture on any GPU narrows them."
        )
    if basis.operators and basis.covered < 0.8:
        notes.append(
            f"Only {basis.covered:.0%} of the operators' time has known FLOPs and bytes; the rest "
            "is carried over as memory traffic."
        )
    if not basis.on_cpu and basis.source is None and basis.operators:
        notes.append(f"{basis.source_name} is not in the catalogue: typical efficiencies are used.")
    return notes
