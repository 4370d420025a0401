"""Which trials to make, in which order, and when to stop.

First the job as it is; then what the user asked for, and the ceiling. Unasked: the ceiling; one
thread beside the workers; numbers of workers, coarse and then between the best two; then what else
may help at the best. At last the leaders in turn, again and again, until their intervals separate
or the budget is spent; what they leave of it goes to settings that are still untried. A trial that
cannot win any more is cut short.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from . import settings as known
from .measure import Arm, Measured, gain_interval, sigma_between
from .settings import Settings, label
from .trial import FIRST_STEP_LIMIT_S, Loader, Outcome, Plan, require

STEPS = 40  # steady steps a trial, unless asked
LEAST_S = 2.0  # of steady time, unless steps are asked
MOST_STEPS = 600
TRIALS = 24  # that a budget should hold: slow steps are counted fewer of
HOPELESS = 1.3  # a trial that is this much behind the best so far, after some steps, cannot win
HOPELESS_STEPS = 12
AS_GOOD = 0.97  # of the best: the simpler setting is taken
CLEARLY = 1.05  # a step up the ladder that brings less than this is the top of it
FOR_LOOKING = 0.65  # of the budget, where we choose what to try; the rest is for repeats first
WORTH = 1.03  # a gain under this is no reason to change code
WAITS = 0.05  # of the time, from which the loader may be worth a trial
AT_CEILING = 0.97
ROUNDS = 5
LEADERS = 3
INTERRUPTED = "ended by Ctrl-C: this is what the trials until then say"
BUDGET = "the time was too short for all that could be tried: --budget gives more"
COLD = "the first trial was over 10 % slower than its repeat (cold files): left out"
LADDER = {"num_workers", "persistent_workers", "main_threads"}  # what an arm of it may set
STEP_LIMIT_S = 60.0


class Runner(Protocol):
    """Makes one trial."""

    def __call__(self, plan: Plan) -> Outcome: ...


@dataclass(frozen=True)
class Asked:
    """What the user wants to know."""

    command: list[str]
    cwd: Path
    tries: list[Settings]  # empty: choose
    steps: int | None
    budget_s: float
    cores: float


@dataclass
class Search:
    """The state of one tuning."""

    asked: Asked
    run: Runner
    folder: Callable[[], Path]  # a new one for each trial
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    base: Arm = field(default_factory=lambda: Arm({}))
    ceiling: Arm = field(default_factory=lambda: Arm({}, replay=True))
    arms: list[Arm] = field(default_factory=list)
    loader: Loader | None = None
    first: Outcome = field(default_factory=Outcome)
    trials: int = 0
    notes: list[str] = field(default_factory=list)
    short: bool = False  # of time for a trial that was wanted
    others_cores: float = 0.0  # the most that other processes used in a trial

    def search(self) -> None:
        """All of it. UserError when the job cannot be tuned."""
        self.began = self.clock()
        self.for_looking = 1.0 if self.asked.tries else FOR_LOOKING
        self._first_trial()
        try:  # twice, for what repeats change: another leader has other neighbours
            for part in (self.for_looking, 1.0):
                self.for_looking, self.short = part, False
                self._look()
                self._repeat()
        except KeyboardInterrupt:
            self.notes.append(INTERRUPTED)
        if self.short:
            self.notes.append(BUDGET)

    def _look(self) -> None:
        """Every setting once, as far as the time goes; a second call goes on where it ended."""
        if self.asked.tries:
            self._try_all(self.asked.tries)
            self._once(self.ceiling)
            return
        self._once(self.ceiling)
        if self._present_workers() and self._shares_cores():
            self._once(self._arm({"main_threads": 1}))
        if self._input_matters():
            self._workers()
            self._others()
            self._climb_with_one_thread()

    # -- the job as it is --------------------------------------------------------------------

    def _first_trial(self) -> None:
        self.say("the job as it is")
        outcome = self.first = self._run(self.base, {})
        require(outcome, self.asked.steps)
        if outcome.ended == "job-ended":
            self.notes.append(
                f"the job ended by itself after {outcome.steps_seen} steps: longer trials would "
                "say more"
            )
        self.loader = outcome.loader
        assert outcome.measured is not None
        self.base.trials.append(outcome.measured)
        self.base.ended.append(outcome.ended)
        self._tell(self.base, outcome)

    def _input_matters(self) -> bool:
        """Whether the job waits, or is faster with batches out of memory."""
        gain = self.ceiling.rate / self.base.rate if self.ceiling.usable else 1.0
        return gain > WORTH or self.first.wait_share > WAITS

    # -- candidates --------------------------------------------------------------------------

    def _try_all(self, tries: list[Settings]) -> None:
        for wanted in tries:
            if wanted != self._present(wanted):
                self._once(self._arm(wanted))

    def _present(self, wanted: Settings) -> Settings:
        """What the job has now of these settings, as far as its loader tells."""
        now = dataclasses.asdict(self.loader) if self.loader else {}
        return {key: now.get(key) for key in wanted}

    def _workers(self) -> None:
        """Numbers of workers: powers of two, on while more helps, then between the best two."""
        if self._present_workers() and self._kept():
            self._once(self._arm(self._kept()))  # as many as now, but kept between epochs
        for count in known.worker_counts(self.asked.cores, self._present_workers()):
            if count == 0 and self.first.wait_share > 0.3:
                continue  # workers that are too slow are not helped by none
            self._try_workers(count)
            if self._at_ceiling():
                break
        while self._still_climbing() and not self._at_ceiling():
            if not self._try_workers(2 * max(self._counts())):
                break
        self._between()

    def _try_workers(self, count: int) -> bool:
        """Whether it could be measured."""
        arm = self._arm(known.sensible({"num_workers": count, **self._kept()}))
        return self._once(arm) and arm.usable

    def _kept(self) -> Settings:
        """What goes with every number of workers."""
        kept: Settings = {}
        if self.base.trials[0].epochs > 0 and not self._now().persistent_workers:
            # A trial holds whole epochs: starting workers anew in each may be what costs.
            kept["persistent_workers"] = True
        if self._one_thread_helps():
            kept["main_threads"] = 1
        return kept

    def _one_thread_helps(self) -> bool:
        """Whether it clearly did beside any number of workers."""
        for arm in self.arms:
            if arm.usable and arm.settings.get("main_threads") == 1:
                rest = {k: v for k, v in arm.settings.items() if k != "main_threads"}
                beside = self._arm(rest) if rest else self.base
                if beside.usable and arm.rate > CLEARLY * beside.rate:
                    return True
        return False

    def _climb_with_one_thread(self) -> None:
        """What one thread gives the job, it may want more workers for."""
        if not self._one_thread_helps():
            return
        best = self._best_workers()
        for count in sorted({*self._counts(), 2 * best}):
            if count > best and not (self._try_workers(count) and self._best_workers() == count):
                break
        self._between()

    def _shares_cores(self) -> bool:
        """A CPU job's own threads, by default one a core, compete with its workers."""
        return "gpu" not in self.first.devices and self.asked.cores >= 2

    def _now(self) -> Loader:
        return self.loader or Loader(None, 0, 2, False, False)

    def _present_workers(self) -> int:
        return self._now().num_workers

    def _still_climbing(self) -> bool:
        """Whether the largest number so far is clearly better than the one before it."""
        counts = self._counts()
        *_, before, last = (0, *sorted(counts))
        if last == 0 or 2 * last > known.MOST_WORKERS or last != self._best_workers():
            return False
        return before not in counts or counts[last].rate > CLEARLY * counts[before].rate

    def _between(self) -> None:
        """The middles beside the best number: between powers of two."""
        counts = self._counts()
        best, ordered = self._best_workers(), sorted(counts)
        at = ordered.index(best)
        for near in ordered[max(0, at - 1) : at] + ordered[at + 1 : at + 2]:
            middle = (best + near) // 2
            flat = counts[best].rate < CLEARLY * counts[near].rate
            if middle not in counts and middle > 0 and not flat:
                self._try_workers(middle)

    def _counts(self) -> dict[int, Arm]:
        """The best arm of each number of workers."""
        found = {self._present_workers(): self.base}
        for arm in self.arms:
            if arm.usable and arm.settings.keys() <= LADDER:
                count = int(arm.settings.get("num_workers", self._present_workers()))
                if count not in found or arm.rate > found[count].rate:
                    found[count] = arm
        return found

    def _best_workers(self) -> int:
        counts = self._counts()
        return max(counts, key=lambda n: counts[n].rate)

    def _others(self) -> None:
        """What else may help, each alone at the best number of workers."""
        workers = int(self.leader().settings.get("num_workers", self._present_workers()))
        wanted: list[Settings] = []
        if workers and self._shares_cores():
            # one was tried where the workers may have been too few for it to show
            counts = {1, max(1, int(self.asked.cores) // 2)}
            wanted += [{"main_threads": count} for count in sorted(counts)]
        if workers and not self._at_ceiling():
            wanted.append({"prefetch_factor": 4})
        if "gpu" in self.first.devices and self.loader and not self.loader.pin_memory:
            wanted.append({"pin_memory": True})
        for more in wanted:
            leader = self.leader()
            self._once(self._arm({**leader.settings, **more}))

    def _at_ceiling(self) -> bool:
        """The ceiling has the job's own threads: it bounds nothing where others are set."""
        best = self.leader()
        reached = self.ceiling.usable and best.rate >= AT_CEILING * self.ceiling.rate
        return reached and known.loader_part(best.settings) == best.settings

    # -- repeats -----------------------------------------------------------------------------

    def _repeat(self) -> None:
        """The leaders and the job as it is, in turn, until the answer stands."""
        for count in range(2, ROUNDS + 1):
            self._drop_cold_start()
            leaders = self._in_question()
            if self._stands(leaders, count):
                return
            for arm in leaders:
                if len(arm.trials) < count and not self._trial(arm):
                    return

    def _in_question(self) -> list[Arm]:
        """The job as it is, and the best few that may still be the best."""
        sigma = sigma_between([self.base, *self.arms])
        usable = sorted((a for a in self.arms if self._may_win(a)), key=lambda a: -a.rate)
        best = usable[0] if usable else self.base
        close = [a for a in usable if gain_interval(a, best, sigma)[1] >= 1.0 / AS_GOOD]
        return [self.base, *close[:LEADERS]]

    def _may_win(self, arm: Arm) -> bool:
        """One that was given up may, when the job as it is turns out slower than it first was."""
        return arm.usable and (not arm.hopeless or arm.rate * HOPELESS >= self.base.rate)

    def _stands(self, leaders: list[Arm], count: int) -> bool:
        """Whether another round would change nothing."""
        if len(leaders) == 1:  # what lost against a single trial may have met a lucky one
            return len(self.base.trials) > 1 or not self.arms
        if any(len(a.trials) < 2 for a in leaders[:2]):
            return False
        sigma = sigma_between([self.base, *self.arms])
        low, high = gain_interval(leaders[1], self.base, sigma)
        separated = low > 1.0 or high < WORTH
        alike = [a for a in leaders[2:] if not self._decided(leaders[1], a, sigma)]
        return separated and (not alike or count > ROUNDS - 2)

    @staticmethod
    def _decided(best: Arm, other: Arm, sigma: float) -> bool:
        """Clearly behind the best, or as good as it for any purpose."""
        low, high = gain_interval(other, best, sigma)
        return high < 1.0 or low > AS_GOOD**2

    def _drop_cold_start(self) -> None:
        """The very first trial may have read files that later ones found in memory."""
        trials = self.base.trials
        if COLD not in self.notes and len(trials) >= 2 and trials[0].rate < 0.9 * trials[1].rate:
            del trials[0]
            self.notes.append(COLD)

    def leader(self) -> Arm:
        """The best so far; among those as good as it the simplest."""
        usable = [self.base, *(a for a in self.arms if a.usable)]
        best = max(arm.rate for arm in usable)
        good = [arm for arm in usable if arm.rate >= AS_GOOD * best]
        return min(good, key=lambda a: (len(a.settings), _workers_of(a), -a.rate))

    # -- one trial ---------------------------------------------------------------------------

    def _usual_s(self) -> float:
        """What a trial has taken so far."""
        return (self.clock() - self.began) / max(1, self.trials)

    def _arm(self, wanted: Settings) -> Arm:
        found = next((a for a in self.arms if a.settings == wanted), None)
        return found or Arm(dict(wanted))

    def _once(self, arm: Arm) -> bool:
        """A trial, unless it had one; False when there is no time for it."""
        return bool(arm.ended) or self._trial(arm)

    def _trial(self, arm: Arm) -> bool:
        """Makes a trial; False when no more of the usual length fits."""
        part = self.for_looking if not arm.trials and arm is not self.ceiling else 1.0
        if self.clock() - self.began + self._usual_s() > part * self.asked.budget_s:
            self.short = True
            return False
        if arm not in (self.base, self.ceiling, *self.arms):
            self.arms.append(arm)
        where = self.loader.where if self.loader else None
        outcome = self._run(arm, known.overrides(arm.settings, where, arm.replay))
        arm.ended.append(outcome.ended)
        if outcome.ended in ("failed", "stalled"):
            arm.problem = outcome.words or f"{outcome.ended} after {outcome.steps_seen} steps"
        elif not outcome.changed and (arm.settings or arm.replay):
            arm.problem = "the hooks did not reach the line that makes the loader"
        elif outcome.measured is None:
            arm.problem = f"too few steps: {outcome.steps_seen}"
        else:
            arm.hopeless = arm.hopeless or outcome.ended == "hopeless"
            arm.trials.append(outcome.measured)
        self._tell(arm, outcome)
        return True

    def _run(self, arm: Arm, overrides: dict[str, Any]) -> Outcome:
        self.trials += 1
        now = self._now()
        workers = 0 if arm.replay else int(arm.settings.get("num_workers", now.num_workers) or 0)
        ready = workers * int(arm.settings.get("prefetch_factor", now.prefetch_factor) or 2)
        wanted = self.asked.steps or max(STEPS, 3 * workers, ready)
        first = self.first.first_step_s
        outcome = self.run(Plan(
            command=self.asked.command, cwd=self.asked.cwd, folder=self.folder(),
            overrides=overrides, ready=ready, workers=workers,
            enough=lambda found: self._enough(found, wanted),
            hopeless=lambda found: self._hopeless(arm, found),
            first_step_limit_s=max(60.0, 5 * first) if first else FIRST_STEP_LIMIT_S,
            step_limit_s=STEP_LIMIT_S,
        ))  # fmt: skip
        self.others_cores = max(self.others_cores, outcome.others_cores or 0.0)
        return outcome

    def _enough(self, found: Measured, wanted: int) -> bool:
        if self.asked.steps:
            return found.steps >= wanted
        time_s = sum(t for t, _ in found.blocks)
        if time_s >= self.asked.budget_s / TRIALS and found.steps >= HOPELESS_STEPS:
            return True
        return found.steps >= wanted and (time_s >= LEAST_S or found.steps >= MOST_STEPS)

    def _hopeless(self, arm: Arm, found: Measured) -> bool:
        if arm is self.base or arm.replay or found.steps < HOPELESS_STEPS:
            return False
        return found.rate * HOPELESS < max(self.base.rate, self.leader().rate)

    def _tell(self, arm: Arm, outcome: Outcome) -> None:
        name = "ceiling" if arm.replay else label(arm.settings)
        if arm.problem:
            self.say(f"trial {self.trials}: {name}: {arm.problem}")
            return
        assert outcome.measured is not None
        unit = "samples/s" if outcome.measured.counts_samples else "steps/s"
        rate = outcome.measured.rate * outcome.ranks
        cut = ", cut short: it cannot win" if outcome.ended == "hopeless" else ""
        self.say(f"trial {self.trials}: {name}: {rate:.4g} {unit}{cut}")


def _workers_of(arm: Arm) -> float:
    count = arm.settings.get("num_workers")
    return float(count) if isinstance(count, int) else -math.inf if not arm.settings else 0.0
