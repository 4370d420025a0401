"""Simulated slow loaders of many kinds, with noise within and between trials; seeded."""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path
from typing import Any

from accelprof.profiler.tuning import settings
from accelprof.profiler.tuning.measure import Measured, Step, measured
from accelprof.profiler.tuning.result import Tuned, result
from accelprof.profiler.tuning.search import Asked, Search
from accelprof.profiler.tuning.trial import Loader, Outcome, Plan

ROUND = 6  # steps between two looks at a running trial


class RandomLoader:
    """A job whose step takes the longer of its own work and what its workers need for a batch.

    Workers burn cores, or wait for a store that serves `enough` of them at once, or both; their
    batches may be uneven, which a longer queue evens out; the job's own threads may suffer beside
    them, which one thread cures, or one thread may be too few.
    """

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.cores = chance.choice([2, 4, 8, 16])
        self.work = 10 ** chance.uniform(-2.3, -0.6)
        self.cpu = self.work * 10 ** chance.uniform(-0.7, 0.9) * chance.choice([0, 1, 1])
        self.wait = self.work * 10 ** chance.uniform(-0.7, 1.2) * chance.choice([0, 1, 1])
        self.enough = chance.choice([3, 6, 12, 40, 100])
        self.uneven = chance.choice([0.0, 0.0, 0.3, 0.6])
        self.crowds = chance.choice([0.0, 0.3])
        self.now = chance.choice([0, 0, 1, 2, 4])
        self.drift = chance.choice([0.01, 0.03, 0.06])
        self.chance = random.Random(seed + 10**6)
        self.clock_s = 0.0

    def step_s(self, given: dict[str, Any]) -> float:
        """Without noise."""
        count = given.get("num_workers", self.now)
        if count == 0:
            return self.work + self.cpu + self.wait
        disturbed = 1.0 + 0.02 * max(0, count - self.cores)
        made = max(
            self.cpu / min(count, self.cores) * disturbed,
            (self.cpu + self.wait) / min(count, self.enough),
        ) * (1.0 + self.uneven / given.get("prefetch_factor", 2))  # fmt: skip
        return max(self._work_s(given), made)

    def _work_s(self, given: dict[str, Any]) -> float:
        if given.get("main_threads") == 1:
            return self.work * (1.0 if self.crowds else 1.15)
        return self.work * (1.0 + (self.crowds if self.cpu else 0.0))

    def best_s(self) -> float:
        """By exhaustive search."""
        every = itertools.product(range(65), (2, 4), ({}, {"main_threads": 1}))
        return min(
            self.step_s(settings.sensible({"num_workers": n, "prefetch_factor": p, **threads}))
            for n, p, threads in every
        )

    def __call__(self, plan: Plan) -> Outcome:
        asked = plan.overrides
        given = {**asked.get("loader", {}), **asked}
        replay = bool(asked.get("replay"))
        usual = self.work if replay else self.step_s(given)
        usual *= math.exp(self.chance.gauss(0.0, self.drift))
        steps: list[Step] = []
        found: Measured | None = None
        while found is None or not (plan.enough(found) or plan.hopeless(found)):
            for _ in range(ROUND):
                steps.append(Step(usual * self.chance.uniform(0.85, 1.15), 16, not steps))
            found = measured(steps, plan.ready, plan.workers)
        self.clock_s += 3.0 + sum(step.time_s for step in steps)
        return Outcome(
            measured=found, ended="steps" if plan.enough(found) else "hopeless", changed=True,
            loader=Loader("train.py:3", self.now, 2, False, False), devices=["cpu"],
            wait_share=max(0.0, 1.0 - self.work / usual), steps_seen=len(steps),
            first_step_s=2.0,
        )  # fmt: skip

    def tune(self, budget_s: float = 600.0) -> Tuned:
        asked = Asked(["python"], Path(), [], None, budget_s, float(self.cores))
        one = Search(asked, self, Path, lambda _: None, clock=lambda: self.clock_s)
        one.search()
        return result(one, self.clock_s)
