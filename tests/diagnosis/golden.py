"""What one rule says of a made run."""

from __future__ import annotations

from made_runs import T0, Run

from accelprof.profiler.diagnosis import view
from accelprof.profiler.diagnosis.model import Judgement
from accelprof.profiler.diagnosis.rules import RULES
from accelprof.profiler.report import Finding


def judged(id: str, fires: Run, run: Run) -> Judgement:
    """By the rule that gives the finding `id` on `fires`."""
    seen = view.load(fires, T0)
    for listed in RULES:
        found = listed.judge(seen)
        if isinstance(found, Finding) and found.id == id:
            return listed.judge(view.load(run, T0))
    raise AssertionError(f"no rule gives {id}")
