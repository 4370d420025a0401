"""Time that comes in lumps: slow epoch starts, outlying steps, no steps at all, slow ranks."""

from __future__ import annotations

from ..model import Clear, Judgement, RunView, Step, Undecidable, evidence
from ..statistics import quantile
from ..text import duration, percent
from .common import finding

WORTH = 0.05  # of the time, in excess of the usual step
OUTLIER = 3.0  # times the median
STALLED_TIMES, STALLED_S = 20.0, 30.0  # no step for this many usual ones and at least this long
COMPILING = 0.02  # of the samples after warm-up: what so few slow steps can hold
IMBALANCE = 0.10


def _plain_ns(step: Step) -> int:
    """A step without what is expected to be long now and then."""
    known = (step.checkpoint_ns or 0) + (step.evaluation_ns or 0) + (step.logging_ns or 0)
    return max(0, step.duration_ns - known)


def epoch(view: RunView) -> Judgement:
    """The first step of an epoch is much longer than the others."""
    steps = view.steady.steps
    first = [_plain_ns(s) for s in steps if s.first_of_epoch]
    rest = [_plain_ns(s) for s in steps if not s.first_of_epoch]
    if len(first) < 2 or not rest:
        return Clear() if steps else Undecidable("steady steps")
    usual = quantile(rest, 0.5) or 0.0
    excess = sum(max(0.0, f - usual) for f in first) / (view.steady.duration_ns or 1)
    if excess < WORTH:
        return Clear()
    each = sum(first) / len(first) / 1e9
    facts = [evidence(
        f"the first step of an epoch takes {duration(each)}, the usual one {duration(usual / 1e9)}",
        "epoch_start_s", each, "s",
    )]  # fmt: skip
    return finding("epoch-stall", excess, "Epochs start slowly", facts,
                   ["keep workers alive (persistent_workers=True), and keep shuffling or indexing "
                    "of the data set out of the epoch's start"])  # fmt: skip


def outliers(view: RunView) -> Judgement:
    steps = [s for s in view.steady.steps if not s.first_of_epoch]
    if len(steps) < 20:
        return Undecidable("20 steady steps")
    lengths = [_plain_ns(s) for s in steps]
    usual = quantile(lengths, 0.5) or 0.0
    slow = [v for v in lengths if v > OUTLIER * usual]
    excess = sum(v - usual for v in slow) / (view.steady.duration_ns or 1)
    if len(slow) < 2 or excess < WORTH:
        return Clear()
    facts = [evidence(
        f"{len(slow)} of {len(steps)} steps take over {OUTLIER:.0f}x the median of "
        f"{duration(usual / 1e9)}, {percent(excess)} of the time", "outlier_share", excess,
    )]  # fmt: skip
    outlying = [s for s in steps if _plain_ns(s) > OUTLIER * usual]
    what, line = _coincidence(view, outlying, sum(slow))
    if what:
        facts.append(evidence(f"they coincide with {what}", "coincides_with", what))
    return finding("step-outliers", excess, "Some steps are far slower than the rest", facts,
                   [line])  # fmt: skip


def _coincidence(view: RunView, slow: list[Step], spent_ns: float) -> tuple[str | None, str]:
    """What most of the slow steps have and the others have not, and what to do about it."""
    made = view.workers
    if sum(s.data_wait_ns or 0 for s in slow) > 0.5 * spent_ns:
        who = f" in bursts of {made.count}, one a worker" if made and not made.in_process else ""
        return "waits for data", f"they wait for data{who}: see the input findings"
    if sum(s.gc_ns or 0 for s in slow) > 0.3 * spent_ns:
        return "the garbage collector", "gc.freeze() after set-up: its full passes take these steps"
    usual = quantile([float(s.samples) for s in view.steady.steps if s.samples], 0.5)
    odd = sum(bool(usual and s.samples and s.samples != usual) for s in slow)
    if odd > 0.7 * len(slow):
        return "batches of another size", (
            "batches of few sizes (drop_last=True, padding to fixed lengths): a new size "
            "allocates, tunes or compiles anew"
        )
    if view.stacks.compiling > COMPILING:
        return "torch.compile's compiler", "see the finding recompiles"
    hot = [e["t_ns"] for e in view.events if e["kind"] in ("clock-jump", "xid", "device-lost")]
    if sum(any(s.t_ns <= t <= s.t_ns + s.duration_ns for t in hot) for s in slow) > len(slow) / 2:
        return "events of the machine", "see the events of the run: accelprof sql"
    return None, ("look at these steps in `accelprof top`: memory allocation, other processes, "
                  "input of another size")  # fmt: skip


def stalled(view: RunView) -> Judgement:
    """No step for far longer than usual, while the run goes on."""
    if view.run.get("state") != "running" or not view.steps:
        return Clear()
    last = max(view.steps, key=lambda s: s.t_ns)
    silent = (view.now_ns - last.t_ns - last.duration_ns) / 1e9
    usual = quantile([s.duration_ns for s in view.steps], 0.5) or 0.0
    longest = max(s.duration_ns for s in view.steps) / 1e9
    if silent < max(STALLED_S, STALLED_TIMES * usual / 1e9, 3 * longest):
        return Clear()
    facts = [evidence(
        f"no step for {duration(silent)}; the longest so far took {duration(longest)}", "silent_s",
        silent, "s",
    )]  # fmt: skip
    place = next(iter(view.stacks.hot.get("user", []) or view.stacks.hot.get("model", [])), None)
    if place:
        facts.append(evidence(f"stacks were last in {place[0]}", "hotspot", place[0]))
    return finding("stalled", 1.0, "The job makes no steps", facts,
                   ["look at the stacks of all ranks; a collective that one rank never entered and "
                    "a worker that died are the usual reasons"], limit=1.0)  # fmt: skip


def ranks(view: RunView) -> Judgement:
    rows = [r for r in view.ranks if r["step_ms"]]
    if len(rows) < 2:
        return Clear()
    own = [r["step_ms"] * (1.0 - (r["communication_share"] or 0.0)) for r in rows]
    slowest = max(own)
    share = (slowest - (quantile(own, 0.5) or slowest)) / slowest
    if share < IMBALANCE:
        return Clear()
    who = rows[own.index(slowest)]["rank"]
    facts = [evidence(
        f"rank {who} works {slowest:.1f} ms a step, the median rank "
        f"{quantile(own, 0.5) or 0:.1f} ms", "slowest_rank_ms", slowest, "ms",
    )]  # fmt: skip
    return finding("rank-imbalance", share, f"Rank {who} is slower and the others wait for it",
                   facts, ["give the ranks equal work: the same batch sizes, data of the same "
                           "length, the same number of cores"])  # fmt: skip
