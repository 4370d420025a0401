"""Step time follows the size of the batch: its steps are not comparable one by one."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import Clear, Judgement, RunView, Undecidable, evidence
from ..statistics import quantile
from ..text import duration, percent
from .common import finding

STEPS, SIZES = 20, 3
EXPLAINS = 0.6  # of the variance of the step time by the size of the batch
SPREAD = 1.3  # slow tenth over fast tenth: less is not worth a word


def judge(view: RunView) -> Judgement:
    pairs = [
        (float(s.samples), float(s.duration_ns - (s.data_wait_ns or 0) - (s.iterator_ns or 0)
         - (s.checkpoint_ns or 0) - (s.evaluation_ns or 0) - (s.logging_ns or 0)))
        for s in view.steady.steps if s.samples
    ]  # fmt: skip
    if len(pairs) < STEPS:
        return Undecidable(f"the sizes of {STEPS} batches")
    sizes, times = [p[0] for p in pairs], [p[1] for p in pairs]
    if len(set(sizes)) < SIZES:
        return Clear()
    slow, fast = quantile(times, 0.9) or 0.0, quantile(times, 0.1) or 0.0
    explained = _r_squared(sizes, times)
    if fast <= 0 or slow < SPREAD * fast or explained < EXPLAINS:
        return Clear()
    facts = [
        evidence(f"{len(set(sizes))} sizes of a batch, {min(sizes):.0f} to {max(sizes):.0f}",
                 "batch_sizes", len(set(sizes))),
        evidence(f"they explain {percent(explained)} of how step times differ "
                 f"({duration(fast / 1e9)} to {duration(slow / 1e9)})", "r_squared", explained),
    ]  # fmt: skip
    result = finding(
        "shape-variation", 0.05, "Step time follows the size of the batch", facts,
        ["compare by samples/s, not by step time; batches of like sizes (bucketing by length) "
         "waste less on padding and keep shapes few"],
    )  # fmt: skip
    result.severity, result.speedup_limit = "info", None
    return result


def _r_squared(x: Sequence[float], y: Sequence[float]) -> float:
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    both = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    xx, yy = sum((a - mean_x) ** 2 for a in x), sum((b - mean_y) ** 2 for b in y)
    return both * both / (xx * yy) if xx > 0 and yy > 0 else 0.0
