"""Which trials are made, on loaders that are formulas: the answer against exhaustive search."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accelprof.profiler.errors import UserError
from accelprof.profiler.tuning import settings
from accelprof.profiler.tuning.measure import Step, measured
from accelprof.profiler.tuning.result import render, result
from accelprof.profiler.tuning.search import Asked, Search
from accelprof.profiler.tuning.trial import Loader, Outcome, Plan

CORES = 8.0
NOW = Loader("train.py:3", 0, 2, False, False)


class Simulated:
    """A job whose step takes max(its own work, what the loader needs), with noise."""

    def __init__(self, step_s: Callable[[dict[str, Any]], float], ceiling_s: float) -> None:
        self.step_s, self.ceiling_s = step_s, ceiling_s
        self.chance = random.Random(1)
        self.now_s = 0.0
        self.made = 0

    def __call__(self, plan: Plan) -> Outcome:
        self.made += 1
        asked = plan.overrides
        real = self.ceiling_s if asked.get("replay") else self.step_s(asked.get("loader", {}))
        drift = self.chance.gauss(1.0, 0.01)
        steps = [
            Step(real * drift * self.chance.uniform(0.9, 1.1), 16, n == 0)
            for n in range(plan.ready + 60)
        ]
        self.now_s += 3.0 + sum(s.time_s for s in steps)
        return Outcome(
            measured=measured(steps, plan.ready, plan.workers), loader=NOW, changed=True,
            wait_share=1.0 - self.ceiling_s / real, wall_s=3.0, steps_seen=len(steps),
            first_step_s=2.0, devices=["cpu"],
        )  # fmt: skip

    def tune(self, *tries: str, budget_s: float = 600.0) -> Any:
        asked = Asked(
            ["python", "train.py"], Path(), settings.combinations(settings.parse_tries(tries)),
            None, budget_s, CORES,
        )  # fmt: skip
        one = Search(asked, self, Path, lambda _: None, clock=lambda: self.now_s)
        one.search()
        return result(one, self.now_s)

    def best_s(self) -> float:
        every = (
            settings.sensible({"num_workers": n, "prefetch_factor": p})
            for n, p in itertools.product(range(65), (2, 4))
        )
        return min(self.step_s(one) for one in every)


def decode(batch_s: float, step_s: float) -> Simulated:
    """Workers that burn a core each; beyond the cores they only disturb."""

    def seconds(given: dict[str, Any]) -> float:
        count = given.get("num_workers", 0)
        if count == 0:
            return batch_s + step_s
        disturbed = 1.0 + 0.02 * max(0.0, count - CORES)
        return max(step_s, batch_s / min(count, CORES)) * disturbed

    return Simulated(seconds, step_s)


def storage(wait_s: float, step_s: float, enough: int) -> Simulated:
    """Workers that wait; the store serves `enough` at once."""

    def seconds(given: dict[str, Any]) -> float:
        count = given.get("num_workers", 0)
        return wait_s + step_s if count == 0 else max(step_s, wait_s / min(count, enough))

    return Simulated(seconds, step_s)


def bursts(batch_s: float, step_s: float) -> Simulated:
    """Uneven batches, which a longer queue evens out."""

    def seconds(given: dict[str, Any]) -> float:
        count = given.get("num_workers", 0)
        if count == 0:
            return batch_s + step_s
        uneven = 1.0 + 0.4 / given.get("prefetch_factor", 2)
        return max(step_s, batch_s / min(count, CORES)) * uneven

    return Simulated(seconds, step_s)


@pytest.mark.parametrize(
    "job",
    [
        decode(0.24, 0.045), decode(0.06, 0.01), decode(0.5, 0.4), decode(0.03, 0.02),
        storage(0.2, 0.002, 40), storage(0.1, 0.03, 5), bursts(0.3, 0.05), bursts(0.08, 0.06),
    ],
    ids=["decode-6", "decode-all", "decode-2", "decode-2-fast",
         "storage-40", "storage-5", "bursts-6", "bursts-2"],
)  # fmt: skip
def test_the_answer_is_as_good_as_exhaustive_search(job: Simulated) -> None:
    best_s = job.best_s()
    found = job.tune()
    chosen = job.step_s(found.best.settings)
    assert best_s / chosen >= 0.95, (found.best.settings, best_s, chosen)
    assert found.best.interval[0] <= job.step_s({}) / chosen <= found.best.interval[1]


def test_no_more_workers_than_help() -> None:
    """Two workers suffice: sixteen are as fast, and not what anybody should be told."""
    found = storage(0.1, 0.06, 64).tune()
    assert found.best.settings == {"num_workers": 2}


def test_a_job_that_does_not_wait_is_left_alone() -> None:
    job = Simulated(lambda given: 0.1, 0.1)
    found = job.tune()
    assert found.best.settings == {}
    assert found.change is None
    assert "does not hold it up" in found.headline
    assert job.made <= 6


def test_more_workers_than_cores_are_not_advised_for_decoding() -> None:
    assert decode(0.5, 0.01).tune(budget_s=3000.0).best.settings["num_workers"] <= 1.5 * CORES


def test_what_the_user_wants_tried_is_tried() -> None:
    found = decode(0.24, 0.045).tune("num_workers=2,6", "prefetch_factor=2,4")
    tried = [row.settings for row in found.trials]
    assert {"num_workers": 6, "prefetch_factor": 4} in tried
    assert len(tried) == 5
    assert found.best.settings["num_workers"] == 6


def test_the_budget_is_kept() -> None:
    job = decode(0.24, 0.045)
    found = job.tune(budget_s=40.0)
    assert job.now_s < 50.0
    assert any("--budget" in note for note in found.notes)
    assert "Nothing can be said yet" in decode(0.24, 0.045).tune(budget_s=1.0).headline


def test_a_slower_first_trial_is_left_out() -> None:
    job = storage(0.1, 0.09, 64)
    warm, calls = job.step_s, itertools.count()
    job.step_s = lambda given: warm(given) * (1.5 if next(calls) == 0 else 1.0)
    found = job.tune()
    assert any("cold files" in note for note in found.notes)
    assert found.best.gain == pytest.approx(0.19 / 0.09, rel=0.1)


def test_settings_that_cannot_be_had_are_reported_and_not_chosen() -> None:
    job = decode(0.24, 0.045)
    plain = job.__class__.__call__

    def breaks(plan: Plan) -> Outcome:
        if plan.workers == 8:
            return Outcome(ended="failed", status=1, words="cannot pickle", steps_seen=0)
        return plain(job, plan)

    asked = Asked(["python"], Path(), [], None, 600.0, CORES)
    one = Search(asked, breaks, Path, lambda _: None, clock=lambda: job.now_s)
    one.search()
    found = result(one, 1.0)
    assert found.best.settings["num_workers"] not in (0, 8)
    assert [row.problem for row in found.trials if row.settings == {"num_workers": 8}] == [
        "cannot pickle"
    ]


class Crowded:
    """A CPU job of two workers, 20 s a trial, whose threads and workers share two cores.

    `rates` are samples/s of the trials in turn of: the job as it is, with one thread, and with
    batches out of memory. The last of each stays.
    """

    def __init__(self, as_it_is: list[float], alone: list[float], ceiling: list[float]) -> None:
        self.rates = {"base": as_it_is, "alone": alone, "ceiling": ceiling}
        self.now_s = 0.0
        self.made: list[str] = []

    def __call__(self, plan: Plan) -> Outcome:
        asked = plan.overrides
        kind = "ceiling" if asked.get("replay") else "alone" if "main_threads" in asked else "base"
        self.made.append(kind if kind != "base" or not asked else "workers")
        rates = self.rates[kind]
        step_s = 16 / (rates.pop(0) if len(rates) > 1 else rates[0])
        steps = [Step(step_s, 16, n == 0) for n in range(60)]
        self.now_s += 20.0
        found = measured(steps, plan.ready, plan.workers)
        assert found is not None
        return Outcome(
            measured=found, ended="hopeless" if plan.hopeless(found) else "steps", changed=True,
            loader=Loader("train.py:3", 2, 2, False, False), steps_seen=60, first_step_s=2.0,
            devices=["cpu"], others_cores=1.8,
        )  # fmt: skip

    def tune(self, *tries: str, budget_s: float) -> Any:
        asked = Asked(
            ["python"], Path(), settings.combinations(settings.parse_tries(tries)), None,
            budget_s, 2.0,
        )  # fmt: skip
        one = Search(asked, self, Path, lambda _: None, clock=lambda: self.now_s)
        one.search()
        return result(one, self.now_s)


def test_what_was_asked_for_comes_before_the_ceiling() -> None:
    job = Crowded([137.0], [362.0], [140.0])
    found = job.tune("main_threads=1", budget_s=45.0)
    assert job.made == ["base", "alone"]
    assert found.headline.startswith("main_threads=1 makes the job 2.64 times as fast")
    assert found.trials_made == 2
    assert any("--budget" in note for note in found.notes)


def test_a_ceiling_below_the_best_is_none() -> None:
    found = Crowded([137.0], [362.0], [140.0]).tune("main_threads=1", budget_s=600.0)
    assert found.best.settings == {"main_threads": 1}
    assert "out of memory" not in found.headline
    assert "for the loader's settings alone" in render(found)


def test_what_looks_faster_but_is_not_separated_is_said() -> None:
    job = Crowded([393.0, 83.0, 83.0], [362.0, 700.0, 159.0], [140.0])
    found = job.tune("main_threads=1", budget_s=145.0)
    assert job.made == ["base", "alone", "ceiling", "base", "alone", "base", "alone"]
    assert found.best.settings == {}
    assert found.headline.startswith("main_threads=1 looks 2.46 times as fast (")
    assert "but 3 trials of each do not separate it" in found.headline
    assert "--budget" in found.headline
    text = render(found)
    assert "Nothing to change" not in text
    assert "7 trials in" in text
    assert any(
        "393, 83, 83" in note and "used up to 1.8 of 2 cores" in note for note in found.notes
    )


def test_a_lucky_first_trial_is_repeated() -> None:
    job = Crowded([393.0, 83.0], [200.0], [390.0])
    found = job.tune("main_threads=1", budget_s=600.0)
    assert job.made.count("alone") > 1
    assert "looks" in found.headline or found.best.settings == {"main_threads": 1}


def test_one_thread_is_tried_early() -> None:
    job = Crowded([137.0], [362.0], [140.0])
    found = job.tune(budget_s=120.0)
    assert job.made[:3] == ["base", "ceiling", "alone"]
    assert found.best.settings["main_threads"] == 1


def test_time_that_repeats_do_not_need_goes_to_what_is_untried() -> None:
    job = Crowded([137.0], [50.0], [1000.0])
    found = job.tune(budget_s=160.0)
    assert found.headline.startswith("Nothing faster was found in the time; with batches")
    assert job.now_s > 140.0
    assert job.made.count("workers") >= 3


def test_a_single_trial_is_one_trial() -> None:
    found = Crowded([137.0], [362.0], [140.0]).tune(budget_s=25.0)
    assert "\n1 trial in" in render(found)


def test_a_wide_ceiling_says_nothing() -> None:
    job = Crowded([400.0, 83.0, 300.0, 90.0], [100.0], [100.0])
    found = job.tune("main_threads=1", budget_s=145.0)
    assert "Nothing to change" not in found.headline


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Outcome(ended="failed", status=3, words="ValueError: no"), "failed with status 3.*no"),
        (Outcome(ended="job-ended", steps_seen=5, loader=NOW), "ended after 5 steps"),
        (Outcome(ended="stalled"), "made no step"),
        (Outcome(ended="steps", steps_seen=50), "no DataLoader"),
    ],
)
def test_a_job_that_cannot_be_tuned_is_told_in_a_line(outcome: Outcome, words: str) -> None:
    asked = Asked(["python"], Path(), [], None, 600.0, CORES)
    one = Search(asked, lambda plan: outcome, Path, lambda _: None)
    with pytest.raises(UserError, match=words):
        one.search()


@pytest.mark.parametrize(
    "tries", ["batch_size=4", "workers=2", "num_workers=x", "num_workers", "pin_memory=maybe",
              "num_workers=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"],
)  # fmt: skip
def test_wrong_tries_are_refused(tries: str) -> None:
    with pytest.raises(UserError):
        settings.combinations(settings.parse_tries([tries]))


def test_an_interrupted_search_says_what_its_trials_say() -> None:
    job = storage(0.2, 0.02, 4)

    class Interrupted(Simulated):
        def __call__(self, plan: Plan) -> Outcome:
            if self.made == 3:
                raise KeyboardInterrupt
            return super().__call__(plan)

    found = Interrupted(job.step_s, job.ceiling_s).tune()
    assert len(found.trials) >= 1 and any("Ctrl-C" in note for note in found.notes)
    assert "Ctrl-C" in render(found)
