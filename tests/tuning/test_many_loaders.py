"""Over many kinds of slow loaders the advice is near the best of an exhaustive search."""

from __future__ import annotations

from statistics import median

import pytest

from .loaders import RandomLoader


@pytest.mark.parametrize(
    "seeds",
    [range(40), pytest.param(range(1000, 1300), marks=pytest.mark.slow)],
    ids=["few", "hundreds"],
)
def test_the_advice_is_near_the_best(seeds: range) -> None:
    reached, held, over = [], 0, []
    for seed in seeds:
        job = RandomLoader(seed)
        found = job.tune()
        chosen_s = job.step_s(found.best.settings)
        reached.append(job.best_s() / chosen_s)
        low, high = found.best.interval
        held += low <= job.step_s({}) / chosen_s <= high
        over.append(job.clock_s / 600.0)
    good = sum(r >= 0.95 for r in reached)
    assert good >= 0.95 * len(seeds), sorted(zip(reached, seeds, strict=True))[:10]
    assert median(reached) > 0.99
    assert held >= 0.88 * len(seeds)  # of 95 % intervals, and the best of many was picked
    assert max(over) < 1.1
