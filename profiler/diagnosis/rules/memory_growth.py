"""Host memory that keeps growing, and when it will be used up."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import Clear, Judgement, RunView, Undecidable, evidence, speedup_limit
from ..statistics import slope
from ..text import duration, size
from .common import finding

POINTS = 20
CERTAIN = 6.0  # slope over its standard error
WORTH_BYTES, WORTH_SHARE = 50 << 20, 0.05  # growth over the steady part
# Memory that settles grows in its first half only
LATE = 0.4
# Without steps nobody knows what is start-up: imports and models are loaded by then
UNSTEPPED_S = 120.0


def growth(points: Sequence[tuple[int, int]]) -> float | None:
    """Bytes/s when memory grows for certain through the whole span; None when it does not."""
    if len(points) < POINTS:
        return None
    start = points[0][0]
    line = [((t - start) / 1e9, float(b)) for t, b in points]
    fitted, late = slope(line), slope(line[len(line) // 2 :])
    if fitted is None or late is None or fitted[0] <= 0:
        return None
    span, mean = line[-1][0], sum(b for _, b in line) / len(line)
    risen = fitted[0] * span
    if risen < max(WORTH_BYTES, WORTH_SHARE * mean) or fitted[0] < CERTAIN * fitted[1]:
        return None
    return fitted[0] if late[0] >= LATE * fitted[0] else None


def judge(view: RunView) -> Judgement:
    if len(view.job.main_rss) < POINTS:
        return Undecidable(f"{POINTS} memory samples of the steady part")
    span_s = (view.job.main_rss[-1][0] - view.job.main_rss[0][0]) / 1e9
    if not view.steady.steps and span_s < UNSTEPPED_S:
        return Undecidable(f"steady steps, or {UNSTEPPED_S:.0f} s without any")
    found = [(growth(view.job.main_rss), "the training process"),
             (growth(view.job.workers_rss), "the loader workers")]  # fmt: skip
    rate, who = max(found, key=lambda f: f[0] or 0.0)
    if not rate:
        return Clear()
    facts = [evidence(f"the memory of {who} grows by {size(rate * 60)} a minute",
                      "growth_bytes_per_s", rate, "B/s")]  # fmt: skip
    if view.step_s:
        facts.append(evidence(f"that is {size(rate * view.step_s)} a step",
                              "growth_bytes_per_step", rate * view.step_s, "B"))  # fmt: skip
    left = view.host.memory_available_bytes
    if left is not None:
        facts.append(evidence(f"{size(left)} are left: full in about {duration(left / rate)}",
                              "seconds_left", left / rate, "s"))  # fmt: skip
    lines = (["keep numbers, not tensors: total += loss.detach().item(); lists that grow in the "
              "loop hold their graphs"] if who.startswith("the training") else
             ["keep the sample list in numpy or arrow instead of Python objects: reference counts "
              "copy the pages that forked workers share"])  # fmt: skip
    result = finding("memory-growth", 0.1, f"Memory of {who} keeps growing", facts, lines,
                     limit=speedup_limit(0.0))  # fmt: skip
    result.severity = "critical" if left is not None and left / rate < 3600 else "warning"
    return result
