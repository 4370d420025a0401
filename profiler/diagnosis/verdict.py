"""The verdict: which share limits the run, why, how sure that is, and what speaks against it.

Statistics (docs/decisions.md has the reasons): the margin between the largest share and the next
is compared with its jackknife error over contiguous blocks of steps. 20 steady steps are the rule;
from 8 on the margin may speak for itself when it exceeds the 99.9 % t-quantile for so few blocks
and every quarter of the run agrees.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..report import Evidence, Finding, Verdict
from . import inconclusive, outside, shares, windows
from .capacity import takes_cores, without_making
from .doubts import CLEAR_MARGIN, SPLIT, Doubts, doubts_of
from .inconclusive import ENOUGH_STEPS, FEWEST_IMPORTED, FEWEST_STEPS
from .model import RunView, evidence, speedup_limit
from .rules import RULES, Listed
from .rules.common import SERIOUS, WORTH
from .rules.ranks import CONSTANT
from .rules.ranks import NAMES as NAMES_OF_PARTS
from .statistics import T_999, blocks, jackknife_error
from .text import NAMES, percent, within

LEAST_MARGIN = 0.02  # less is no difference worth a verdict
NOISE_TIMES = 2.0  # standard errors below which a margin is noise
MOST_WINDOWS = 0.6
LEAST_TRAINING = 0.05  # of the time
SEEN = 0.005  # a share that is shown as 1 % or more


def judge(view: RunView, fired: Fired) -> Verdict:
    """The verdict of a run; `fired` in the order of RULES."""
    if view.of_host:
        return inconclusive.verdict(inconclusive.of_host(view), [])
    if view.outside is not None:
        return outside.judge(view, view.outside)
    return _judge_steps(view, fired)


def _judge_steps(view: RunView, fired: Fired) -> Verdict:
    count, part = len(view.steady.steps), 1.0 - view.shares.get("evaluation", 0.0)
    if count < (FEWEST_IMPORTED if view.imported else FEWEST_STEPS):
        return inconclusive.verdict(inconclusive.too_short(view), inconclusive.device_facts(view))
    if not view.shares:
        return inconclusive.verdict(inconclusive.NO_TIME, inconclusive.device_facts(view))
    if part < LEAST_TRAINING:
        return _refused(view, inconclusive.all_evaluation(part))
    return _of_shares(view, part, fired)


def _of_shares(view: RunView, part: float, fired: Fired) -> Verdict:
    """By the largest share; `part` of the time is not evaluation."""
    count = len(view.steady.steps)
    ranked = sorted(
        ((v, k) for k, v in view.shares.items() if k != "evaluation"), reverse=True
    )  # fmt: skip
    (top, name) = ranked[0]
    if (made := takes_cores(view, name)) is not None:
        return _by_cpu(view, made, fired)
    if name == "other" or (name == "input" and _guessed_of_straggler(view)):
        return _not_told_apart(view, ranked, fired)
    (next_share, next_name) = next(pair for pair in ranked[1:] if pair[1] != "other")
    # Evaluation has no bottleneck of its own: the rest is judged as if it were the whole
    margin = (top - next_share) / part
    error = _margin_error(view, name, next_name) / part
    agree = _agreement(view, name)
    noise = T_999[min(count, len(T_999)) - 1] if count < ENOUGH_STEPS else NOISE_TIMES
    few = count < ENOUGH_STEPS and agree < 1.0
    needed = max(noise * error, LEAST_MARGIN)
    close = margin < needed
    # Between parts of the split the capture decides, not the steps: low confidence says so
    changes = windows.phases(windows.over_time(view))
    # What scatters because the run has phases is no noise: most of it says the same
    settled = changes is not None and margin >= CLEAR_MARGIN and agree >= MOST_WINDOWS
    if few or (close and not settled and not (name in SPLIT and next_name in SPLIT)):
        if name == "input" and (made := takes_cores(view, next_name)) is not None:
            return _by_cpu(view, made, fired)  # the rival is long because of the input
        return _refused(view, inconclusive.changing(changes) if changes else
                        inconclusive.too_close(name, next_name, margin, needed, view))  # fmt: skip
    doubts = doubts_of(view, name, next_name, margin=margin, error=error, agree=agree)
    if doubts.overturned:
        return _refused(view, doubts.overturned)
    return _verdict(view, name, next_name, doubts=doubts, fired=fired)


def _not_told_apart(
    view: RunView, ranked: Sequence[tuple[float, str]], fired: Fired
) -> Verdict:  # fmt: skip
    if ranked[0][1] == "input" or _holds_up(view, ranked):
        return _of_straggler(view, fired)
    loads = all(step.kind == "loading" for step in view.steady.steps)
    return _refused(view, (inconclusive.only_loading if loads else inconclusive.unsplit)(view))


def _guessed_of_straggler(view: RunView) -> bool:
    """Whether the input is no more than a rank's own code that waits, and the others for it."""
    slow, share = view.compared, view.shares["input"]
    guessed = slow is not None and slow.part == "rest" and view.input_by_stacks > share / 2
    return guessed and _holds_up(view, [(share, "input"), (0.0, "")])


def _holds_up(view: RunView, ranked: Sequence[tuple[float, str]]) -> bool:
    """Whether one rank makes the others wait for more than any named share of its own time."""
    slow = view.compared
    if slow is None or slow.recurrence < CONSTANT or len(view.steady.steps) < ENOUGH_STEPS:
        return False
    return slow.excess_share >= max(SERIOUS, ranked[1][0])


def _of_straggler(view: RunView, fired: Fired) -> Verdict:
    """What the slow rank does is not told apart, but that the others wait for it is."""
    slow = view.compared
    assert slow is not None
    cause, why = _cause("communication", [f for f in fired if f[1].id == "straggler"])
    return Verdict(
        bottleneck="communication-bound", confidence="medium",
        headline=f"Communication-bound: all other ranks wait for rank {slow.rank}, "
        f"{percent(slow.excess_share)} of the time; most of it is {NAMES_OF_PARTS[slow.part]}.",
        cause=cause, evidence=_unique(why.evidence if why else []),
        speedup_limit=speedup_limit(slow.excess_share),
        against=["no hook saw what that rank does in this time; it may be making its batches"],
    )  # fmt: skip


def _refused(view: RunView, why: str) -> Verdict:
    return inconclusive.verdict(why, inconclusive.share_facts(view))


def _by_cpu(view: RunView, made: float, fired: Fired) -> Verdict:
    """Workers that take the cores from the training thread: it computes slowly and waits little."""
    cause, why = _cause("input", fired)
    facts = [evidence(
        f"making batches takes {percent(made)} of the job's CPU time, and no core is free",
        "input_cpu_share", made,
    ), evidence(
        f"the training thread itself waits for data {percent(view.shares['input'])} of the time",
        "input_share", view.shares["input"],
    )]  # fmt: skip
    return Verdict(
        bottleneck="input-bound",
        confidence="medium",
        headline=f"Input-bound: {percent(made)} of the job's CPU time is the making of batches, "
        "and the cores are full.",
        cause=cause, evidence=_unique([*facts, *(why.evidence if why else [])]),
        speedup_limit=without_making(view, made),
        against=["told from CPU time: the step's own work is stretched by the workers beside it"],
    )  # fmt: skip


def _verdict(
    view: RunView, name: str, next_name: str, *, doubts: Doubts, fired: Fired,
) -> Verdict:  # fmt: skip
    top, bottleneck = view.shares[name], windows.BOTTLENECK_OF[name]
    cause, why = _cause(name, fired)
    facts = [evidence(
        f"{NAMES[name]} takes {percent(top)} of {view.steady.count} steady steps",
        f"{name}_share", top,
    )]  # fmt: skip
    facts += why.evidence if why else []
    if name in SPLIT and view.split is not None:
        facts.append(evidence(_split_text(view), "memory_or_compute", "captured operators"))
    against = [*_rivals(view, next_name), *doubts.texts]
    evaluation = view.shares.get("evaluation", 0.0)
    headline = _headline(view, name, top, why, evaluation)
    if (change := windows.phases(windows.over_time(view))) is not None:
        headline = f"{headline[:-1]}; it changes over the run: {change}."
    if evaluation > top:
        against.insert(0, f"evaluation takes {percent(evaluation)}: this is of the training part")
    return Verdict(
        bottleneck=bottleneck, confidence=doubts.cap,
        headline=headline,
        cause=cause, evidence=_unique(facts), speedup_limit=speedup_limit(top), against=against,
    )  # fmt: skip


def _rivals(view: RunView, next_name: str) -> list[str]:
    """What else the time may be: the next largest share, and what was not told apart."""
    following, unknown = view.shares[next_name], view.shares.get("other", 0.0)
    found = []
    if following >= SEEN:
        found.append(f"{NAMES[next_name]} is next with {percent(following)}")
    if unknown >= max(following, 0.05):
        undivided = view.on_cpu and view.split is None
        found.append(f"{percent(unknown)} of the time is " + (
            "the step's own work, not divided into arithmetic and memory" if undivided
            else "not told apart"))  # fmt: skip
    return found


def _headline(
    view: RunView, name: str, share: float, why: Finding | None, evaluation: float
) -> str:
    bottleneck = windows.BOTTLENECK_OF[name]
    slow = view.compared
    of = " on the slowest rank" if slow else ""
    if slow and slow.recurrence >= CONSTANT and slow.excess_share >= WORTH:
        of = f" on rank {slow.rank}, for which the others wait,"
    text = f"{bottleneck.capitalize()}: {percent(share)} of the time{of} is {NAMES[name]}"
    if why is not None:
        text += f"; {within(why.title)}"
    if evaluation > share:
        part = percent(share / (1.0 - evaluation))
        text = f"Evaluation takes {percent(evaluation)} of the time; the training part is " + (
            f"{bottleneck}: {part} of it is {NAMES[name]}"
        )
    return text + "."


def _split_text(view: RunView) -> str:
    split, ceilings = view.split, view.ceilings
    assert split is not None
    against = "captured operators; the same for any CPU"
    if ceilings is not None:
        gemm = ceilings.flops.get(split.dtype or "fp32") or ceilings.flops.get("fp32", 0.0)
        against = (
            f"captured operators against {gemm / 1e9:.0f} GFLOP/s and "
            f"{ceilings.bytes_per_s / 1e9:.0f} GB/s, {ceilings.source}"
        )
    if split.named >= SEEN:
        against += f"; {percent(split.named)} by the names of operators and kernels alone"
    return (
        f"of the step's work {percent(split.compute)} is limited by arithmetic, "
        f"{percent(split.memory)} by memory, {percent(split.host)} is dispatch and Python "
        f"({against})"
    )


Fired = list[tuple[Listed, Finding]]


def _cause(name: str, fired: Fired) -> tuple[str | None, Finding | None]:
    """The first finding, in the order of RULES, that explains this share."""
    bottleneck = windows.BOTTLENECK_OF[name]
    for listed, found in fired:
        cause = listed.cause or found.id
        if bottleneck not in listed.bottlenecks:
            continue
        if found.severity == "info" and cause != "good":
            continue  # too small to be why a run is limited by this
        if bottleneck == "host-bound" and (cause == "logging") != (name == "logging"):
            continue
        return (None if bottleneck == "checkpoint-bound" else cause), found
    return None, None


def fire(view: RunView) -> Fired:
    """What fired, in the order of RULES."""
    judged = ((listed, listed.judge(view)) for listed in RULES)
    return [(listed, found) for listed, found in judged if isinstance(found, Finding)]


# --- how sure ------------------------------------------------------------------------------------


def _margin_error(view: RunView, name: str, other: str) -> float:
    steps = view.steady.steps
    parts = [shares.totals(steps[a:b]) for a, b in blocks(len(steps))]

    def margin(sums: list[float]) -> float:
        found, _, _ = shares.divide(sums, view.division)
        return found.get(name, 0.0) - found.get(other, 0.0)

    return jackknife_error(parts, margin)


def _agreement(view: RunView, name: str) -> float:
    """Part of the run's windows (quarters of a short run) whose largest share is this one."""
    steps = view.steady.steps
    cuts: Sequence[Sequence[object]] = windows.cut(steps)
    if len(cuts) < 4:
        cuts = [steps[a:b] for a, b in blocks(len(steps), 4)]
    tops = [
        windows.largest(shares.divide(shares.totals(c), view.division)[0])[0]  # type: ignore[arg-type]
        for c in cuts
    ]
    return sum(t == name for t in tops) / len(tops)


def _unique(facts: Sequence[Evidence]) -> list[Evidence]:
    seen: set[str] = set()
    return [f for f in facts if not (f.metric in seen or seen.add(f.metric))]  # type: ignore[func-returns-value]
