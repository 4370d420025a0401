"""The step is spent in Python and in dispatching operators rather than in arithmetic."""

from __future__ import annotations

from ...report import Evidence
from ..model import Clear, Judgement, RunView, Undecidable, evidence, speedup_limit
from ..text import many, percent
from .common import WORTH, finding, hot_places

MANY_CALLS = 100  # operators a step; fewer are not what makes a step slow
SMALL_US = 50.0  # mean time of an operator with its wrappers that is mostly dispatch
MOSTLY = 0.5  # of the step's work
GC_WORTH = 0.05
SEEN = 0.3  # of the time without operators, which the stacks of the user's own code explain


def small_kernels(view: RunView) -> Judgement:
    if view.shares.get("host", 0.0) < WORTH:
        return Clear()
    if view.split is None:
        return Undecidable("an operator capture and this machine's ceilings")
    split = view.split
    dispatch = split.latency >= max(MOSTLY, split.python)  # however long a busy machine makes it
    if split.calls_per_step < MANY_CALLS or (split.mean_op_us > SMALL_US and not dispatch):
        return Clear()
    host = view.shares["host"]
    facts = [
        evidence(
            f"{many(split.calls_per_step, 'operator call')} a step, {split.mean_op_us:.1f} us each",
            "calls_per_step", split.calls_per_step,
        ),
        evidence(
            f"{percent(host)} of the time is dispatch and Python", "host_share", host,
        ),
    ]  # fmt: skip
    facts += _tracers(view)
    lines = [
        *_without_tracers(view),
        "fewer and larger operators: torch.compile(model), batched instead of looped "
        "operations, a larger batch (a step hardly gets longer while it is dispatch)",
    ]
    slow = [o for o in view.optimizers if o.get("foreach") is False and not o.get("fused")]
    if slow:
        tensors = slow[0].get("tensors")
        lines.append(f"{slow[0].get('name')}(..., foreach=True) or fused=True"
                     + (f": it loops over {tensors} tensors" if tensors else ""))  # fmt: skip
    return finding(
        "small-kernels", host, "Many small operators: the time is dispatch", facts, lines
    )


def python(view: RunView) -> Judgement:
    host = view.shares.get("host", 0.0)
    if host < WORTH:
        return Clear()
    if view.split is None and not view.stacks.samples:
        return Undecidable("an operator capture or stacks")
    if view.split is not None and view.split.python < view.split.latency:
        return Clear()
    facts = [evidence(f"{percent(host)} of the time runs no operator", "host_share", host)]
    facts += _tracers(view)
    places = _places(view)
    facts += places
    return finding(
        "python", host, "Python code between the operators takes the time", facts,
        [*_without_tracers(view), _python_advice(view, [str(fact.value) for fact in places])],
    )  # fmt: skip


def _places(view: RunView) -> list[Evidence]:
    """Where the Python is.

    A `for batch in loader` line is the wait for data, and the loop's lines that call the model or
    backward are not its Python. A few samples do not tell where a lot of Python is.
    """
    waits = {place for place, _ in view.stacks.hot.get("loader", [])}
    if view.stacks.shares.get("user", 0.0) >= SEEN * view.shares["host"]:
        found = [f for f in hot_places(view, "user") if f.value not in waits]
        if found:
            return found
    loops = {_function(place) for place in waits}
    lines = {place for place, _ in view.stacks.hot.get("step", [])}
    return [f for f in hot_places(view, "model")
            if f.value not in lines and _function(str(f.value)) not in loops]  # fmt: skip


def _tracers(view: RunView) -> list[Evidence]:
    names = ", ".join(view.tracers)
    text = f"{names} runs at each line or call of the training thread"
    return [evidence(text, "tracer", names)] if names else []


def _without_tracers(view: RunView) -> list[str]:
    if not view.tracers:
        return []
    return [f"measure without {', '.join(view.tracers)}: a debugger, coverage or "
            "profiler makes each line of Python several times as slow"]  # fmt: skip


def _function(place: str) -> str:
    """ "file function" of "file:line function"."""
    at, _, function = place.rpartition(" ")
    return f"{at.rpartition(':')[0]} {function}"


def _python_advice(view: RunView, places: list[str]) -> str:
    if places:
        return f"take the work in {' and '.join(places)} out of the step, or vectorise it"
    if view.stacks.samples:
        return (
            "no line of the loop stands out in the stacks: torch.compile(model) or a larger "
            "batch take Python out of the step"
        )
    return "run with --stacks auto to see which lines it is"


def garbage(view: RunView) -> Judgement:
    """Python's garbage collector: full passes over many live objects."""
    if view.gc_share is None:
        return Undecidable("garbage collector pauses")
    if view.gc_share < GC_WORTH:
        return Clear()
    facts = [evidence(
        f"the garbage collector runs {percent(view.gc_share)} of the time", "gc_share",
        view.gc_share,
    )]  # fmt: skip
    return finding(
        "gc", view.gc_share, "Python's garbage collector stops the training thread", facts,
        ["call gc.freeze() after set-up; where the loop calls gc.collect(), do so every few "
         "hundred steps, and where it makes many small objects, raise gc.set_threshold(50_000): "
         "memory that only the collector frees is then held longer"],
        limit=speedup_limit(view.gc_share)
    )  # fmt: skip
