"""A faster accelerator would not help: the time goes where it does not work."""

from __future__ import annotations

from ..model import Clear, Judgement, RunView, Undecidable, evidence, speedup_limit
from ..text import percent
from .common import finding

# Shares that no accelerator shortens. `other` may be anything, so it counts for neither side, and
# evaluation is the model's work like training, or its own wait for data
STAYS = ("input", "host", "checkpoint", "logging")
MOST = 0.5  # the same line as `accelprof advise` draws


def judge(view: RunView) -> Judgement:
    if not view.shares:
        return Undecidable("where the time goes")
    stays = sum(view.shares.get(n, 0.0) for n in STAYS)
    if view.on_cpu:
        stays -= view.shares.get("host", 0.0)  # dispatch of a CPU's operators goes with them
    if stays < MOST:
        unknown = view.shares.get("other", 0.0) + view.shares.get("evaluation", 0.0)
        return Undecidable("what limits the rest of the time") if unknown > MOST else Clear()
    limit = speedup_limit(1.0 - stays)
    largest = max(STAYS, key=lambda n: view.shares.get(n, 0.0) if n != "host" or not view.on_cpu
                  else 0.0)  # fmt: skip
    facts = [evidence(
        f"{percent(stays)} of the time stays whatever the accelerator is; an infinitely fast one "
        f"would bring {limit:.2f}x", "stays_share", stays,
    )]  # fmt: skip
    result = finding(
        "upgrade-would-not-help", stays, "A faster accelerator would not help this run", facts,
        [f"keep the hardware and lessen the time in {largest} first; a faster accelerator would "
         "only wait longer at a higher price"],
    )  # fmt: skip
    result.severity, result.speedup_limit = "info", None
    return result
