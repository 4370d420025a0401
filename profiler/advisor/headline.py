"""The one sentence on top of the advice."""

from __future__ import annotations

from ..reports import figures
from .basis import Basis
from .candidates import SAME, Candidate, cost, level, most_gain, per_sample

WORTH_LESS = 0.9  # a price under this share of today's is worth a word
WAITS = 0.4  # of a step that no accelerator shortens: it may be what sets the pace
# What no accelerator shortens, as far as it was seen; `other` may be anything, so it is not here
STAYS = ("input", "host", "checkpoint", "logging", "evaluation")


def waiting(basis: Basis) -> float:
    """The share of a step that stays on any accelerator."""
    share = sum(basis.shares.get(n, 0.0) for n in STAYS)
    if basis.on_cpu:
        share -= basis.shares.get("host", 0.0)  # its dispatch goes with the operators
    return share


def headline(basis: Basis, rows: list[Candidate], limit: float | None, helps_not: bool) -> str:
    ranked = [r for r in rows if r.rank_time is not None]
    if helps_not and waiting(basis) >= WAITS:
        return _no_help(basis, limit) + _what_helps(basis) + _cheaper(rows)
    if level(rows):
        return _alike(basis, ranked) + _what_helps(basis) + _cheaper(rows)
    if not basis.operators:
        return (
            "Nothing can be projected: this run has no captured operators "
            "(record it with --capture auto, or import a trace)."
        )
    if not basis.step_s:
        return "Nothing can be projected: this run has no steady steps."
    if not ranked:
        return _none_left(rows)
    return _best(basis, ranked)


def _alike(basis: Basis, ranked: list[Candidate]) -> str:
    """For a step that takes as long on every accelerator."""
    step_ms, saved = per_sample(ranked[0]), most_gain(ranked) or 0.0
    than_now = f"{saved:.0%} less than now" if saved > 1.0 - 1.0 / SAME else "as now"
    cause = f" ({basis.input_cause})" if basis.input_cause else ""
    return (
        f"No accelerator helps more than another: a step takes {step_ms:.3g} ms on each of them, "
        f"{than_now}, because work outside the accelerator sets the pace{cause}."
    )


def _what_helps(basis: Basis) -> str:
    return f" What helps: {basis.first_advice}." if basis.first_advice else ""


def _no_help(basis: Basis, limit: float | None) -> str:
    names = {"input": "waits for input", "host": "is Python and launches on the host"}
    part = max(STAYS, key=lambda n: basis.shares.get(n, 0.0))
    share = basis.shares.get(part, 0.0)
    what = names.get(part, f"goes to {part}")
    saves = 1.0 - 1.0 / limit if limit else 0.0
    first = f" ({basis.input_cause})" if basis.input_cause and part == "input" else ""
    most = f"at most {saves:.0%} of the time" if saves >= 0.005 else "no time at all"
    return (
        f"A faster accelerator would not help: {share:.0%} of each step {what}{first}; even an "
        f"infinitely fast one saves {most}, and costs more an hour."
    )


def _cheaper(rows: list[Candidate]) -> str:
    """Names what does the same work in the same time for less, when there is such a one."""
    now = next((r for r in rows if r.current and r.usd_per_hour), None)
    if now is None or now.step_ms is None:
        return ""
    same = [r for r in rows if r.rank_cost and per_sample(r) <= SAME * per_sample(now)]
    best = min(same, key=cost, default=now)
    if best is now or cost(best) > WORTH_LESS * cost(now):
        return ""
    return f" {best.name} does the same for {cost(best) / cost(now):.0%} of the price."


def _none_left(rows: list[Candidate]) -> str:
    shown = [r for r in rows if r.step_ms]
    if shown and all(r.fits is False for r in shown):
        return "No accelerator asked for holds this run at its batch: use a smaller batch."
    if any(r.within_deadline is False or r.within_budget is False for r in shown):
        return "No accelerator asked for keeps the budget and the deadline."
    return "No accelerator asked for can be projected: its figures or precision are missing."


def _best(basis: Basis, ranked: list[Candidate]) -> str:
    fastest = min(ranked, key=lambda r: r.rank_time or 0)
    priced = [r for r in ranked if r.rank_cost is not None]
    text = f"Fastest: {fastest.name}, {_times(fastest)}"
    if priced:
        cheapest_ = min(priced, key=lambda r: r.rank_cost or 0)
        price = f" at {_dollars(cheapest_.usd_run)} a run" if cheapest_.usd_run is not None else ""
        text += (
            f", and the cheapest too{price}" if cheapest_ is fastest
            else f"; cheapest: {cheapest_.name}, {_times(cheapest_)}{price}"
        )  # fmt: skip
    else:
        text += "; no price is known, so the ranking is by time alone"
    if fastest.current:
        text += "; it is the one the run already has"
    if basis.on_cpu:
        text += " (from a capture on a CPU: expect it to be off by up to a factor of two)"
    return text + "." + _cheaper(ranked)


def _dollars(usd: float) -> str:
    """Under a cent with the digits that matter."""
    return f"${usd:,.2f}" if usd >= 0.01 else f"${figures.number(float(f'{usd:.2g}'))}"


def _times(row: Candidate) -> str:
    if row.step_ms is None:
        return "unknown"
    return f"{row.step_ms.mid:.3g} ms a step ({row.step_ms.low:.3g} to {row.step_ms.high:.3g})"
