"""The advice for a person."""

from __future__ import annotations

from typing import Any

from ..reports.columns import columns
from ..reports.figures import size
from .candidates import Advice, Candidate, allowed

SHOWN = 14
NAMED = 5  # accelerators within the limits
HEADS = ("accelerator", "n", "step ms", "range", "samples/s", "there", "fits", "largest batch",
         "samples/s at it", "epoch", "$ epoch", "run", "$/h", "$ run", "kWh")  # fmt: skip
OPTIONAL = ("largest batch", "samples/s at it", "epoch", "$ epoch", "energy $", "kg CO2")


def render(advice: Advice, *, every: bool = False) -> str:
    """Headline, table by time, notes; the first rows unless `every`."""
    rows = advice.accelerators
    shown = rows if every else _shown(rows)
    cells = _known([(*HEADS, "energy $", "kg CO2"), *(_cells(r) for r in shown)])
    lines = [advice.headline, *_limits(advice), "", _basis(advice), "", *columns(cells)]
    lines += _tokens(shown)
    hidden = len(rows) - len(shown)
    lines.append("")
    lines += [f"{row.id}: {note}." for row in shown for note in row.notes]
    if hidden:
        lines.append(f"{hidden} more with --all or --json.")
    own = "* the run's own device, as measured. " if any(r.current for r in shown) else ""
    lines.append(f"{own}Prices: cheapest on-demand list price a device; - is unknown.")
    if advice.memory:
        lines += _memory(advice.memory)
    lines += _porting(shown)
    lines += [f"Note: {note}" for note in advice.notes]
    return "\n".join(lines)


def _known(cells: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The table without optional columns of which nothing is known."""
    left = [
        any(row[at] != "-" for row in cells[1:]) or head not in OPTIONAL
        for at, head in enumerate(cells[0])
    ]
    return [tuple(c for c, keep in zip(row, left, strict=True) if keep) for row in cells]


def _limits(advice: Advice) -> list[str]:
    """Which accelerators keep the budget and the deadline; the nearest where none does."""
    asked, rows = advice.limits, advice.accelerators
    timed = [r for r in rows if r.run_s is not None and r.fits is not False]
    if asked is None or not timed:
        return []
    within = " and ".join(
        ([f"${asked.budget_usd:,.6g}"] if asked.budget_usd is not None else [])
        + ([_duration(asked.deadline_s)] if asked.deadline_s is not None else [])
    )
    if asked.budget_usd is not None and all(r.usd_run is None for r in timed):
        return [f"Within {within}: not known, no price is."]
    kept = [r for r in timed if allowed(r) and (asked.budget_usd is None or r.usd_run is not None)]
    if kept:
        first = sorted(kept, key=lambda r: (r.usd_run is None, r.usd_run or r.run_s))[:NAMED]
        more = f" and {len(kept) - len(first)} more" if len(kept) > len(first) else ""
        return [f"Within {within}: {', '.join(_run(r) for r in first)}{more}."]
    fastest = min(timed, key=lambda r: r.run_s or 0.0)
    priced = [r for r in timed if r.usd_run is not None]
    nearest = [_run(min(priced, key=lambda r: r.usd_run or 0.0))] if priced else []
    nearest += [_run(fastest)] if _run(fastest) not in nearest else []
    return [f"Within {within}: none; the nearest: {', '.join(nearest)}."]


def _run(row: Candidate) -> str:
    price = f"${row.usd_run:,.3g}, " if row.usd_run is not None else ""
    return f"{row.id} ({price}{_duration(row.run_s)})"


def _porting(rows: list[Candidate]) -> list[str]:
    """The work of a move, where there is any; accelerators that need the same in one line."""
    same: dict[str, list[str]] = {}
    for row in rows:
        if row.porting:
            same.setdefault("; ".join(row.porting), []).append(row.id)
    return [f"To run on {', '.join(names)}: {items}." for items, names in same.items()]


def _tokens(rows: list[Candidate]) -> list[str]:
    """A second table for language models: latency and throughput, or tokens/s and MFU."""
    served = [(r, r.serving) for r in rows if r.serving is not None]
    if served:
        first = served[0][1]
        heads = ("generating", "ms/token", "tokens/s", "there", "prefill s", "largest batch",
                 "tokens/s at it", "$/M tokens")  # fmt: skip
        cells = [heads, *(
            (
                row.id, _number(s.ms_per_token), _number(s.tokens_per_s), s.bound or "-",
                _number(s.prefill_s), "-" if s.largest_batch is None else str(s.largest_batch),
                _number(s.tokens_per_s_largest), _number(s.usd_per_million_tokens),
            )
            for row, s in served
        )]  # fmt: skip
        told = f"Batch {first.batch}, context {first.context} tokens; prefill of one sequence:"
        return ["", told, *columns(cells)]
    trained = [
        (r.id, _number(r.tokens_per_s), "-" if r.mfu is None else f"{r.mfu:.0%}")
        for r in rows
        if r.tokens_per_s is not None
    ]
    return ["", *columns([("training", "tokens/s", "MFU"), *trained])] if trained else []


def _memory(parts: dict[str, Any]) -> list[str]:
    """The parts of a device's memory, and what would free most of it."""
    names = ("parameters", "gradients", "optimizer", "activations", "framework", "fragmentation")
    told = [f"{name} {size(parts[f'{name}_bytes'])}" for name in names if parts[f"{name}_bytes"]]
    how = {"measured-peak": "measured", "captured-forward": "from the captured step"}
    lines = [
        f"Memory a device, {how.get(parts['method'], 'estimated from sizes')}: peak "
        f"{size(parts['total_bytes'])}; {', '.join(told)}."
    ]
    freed = [f"{one['what']} {size(one['bytes'])} ({one['price']})" for one in parts["would_free"]]
    if freed:
        lines.append(f"Would free: {'; '.join(freed[:4])}.")
    return lines


def _shown(rows: list[Candidate]) -> list[Candidate]:
    """The best by time and by cost, and the run's own device."""
    keep = [r for r in rows if r.current or (r.rank_cost or 99) <= SHOWN // 2]
    for row in rows:
        if len(keep) >= SHOWN:
            break
        if row not in keep:
            keep.append(row)
    return [r for r in rows if r in keep]


def _basis(advice: Advice) -> str:
    basis = advice.basis
    step = f"{basis['step_ms']:.3g} ms a step" if basis["step_ms"] else "no steady steps"
    batch = f", batch {basis['batch']}" if basis["batch"] else ""
    return (
        f"From run {basis['run']}: {basis['count']} x {basis['device']}, {step}{batch}, "
        f"{basis['precision'] or 'precision unknown'}; evidence: {basis['evidence']}."
    )


def _cells(row: Candidate) -> tuple[str, ...]:
    step = row.step_ms
    fits = {True: "yes", False: "no", None: "?"}[row.fits]
    return (
        f"{row.id}{' *' if row.current else ''}", str(row.count),
        _number(step.mid if step else None),
        f"{_number(step.low)}-{_number(step.high)}" if step else "-",
        _number(row.samples_per_s), (row.bottleneck or "-").removesuffix("-bound"), fits,
        "-" if row.largest_batch is None else str(row.largest_batch),
        _number(row.samples_per_s_largest), _duration(row.epoch_s), _number(row.usd_per_epoch),
        _duration(row.run_s), _number(row.usd_per_hour), _number(row.usd_run),
        _number(row.energy_kwh), _number(row.energy_usd), _number(row.co2_kg),
    )  # fmt: skip


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
