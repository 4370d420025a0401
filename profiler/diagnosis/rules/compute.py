"""Arithmetic limits: whether a cheaper precision is there, or the machine gives all it has."""

from __future__ import annotations

from ..model import Clear, Judgement, RunView, Undecidable, evidence, speedup_limit
from ..text import percent
from .common import finding

WORTH = 0.3
PAYS = 2.0  # measured rate of bf16 over fp32 from which autocast pays its conversions
GOOD, POOR = 0.6, 0.4
FEW_ROWS = 64


def _efficiency(view: RunView) -> float | None:
    assert view.split is not None
    known = [(o["efficiency"], o["share"]) for o in view.split.ops
             if o["bound"] == "compute" and o["efficiency"] is not None]  # fmt: skip
    weight = sum(s for _, s in known)
    return sum(e * s for e, s in known) / weight if weight else None


def _base(view: RunView) -> Judgement | None:
    if view.shares.get("compute", 0.0) < WORTH:
        return Clear()
    if view.split is None or view.ceilings is None:
        return Undecidable("an operator capture and this machine's ceilings")
    return None


def precision(view: RunView) -> Judgement:
    """fp32 products where this machine multiplies bf16 much faster."""
    stop = _base(view)
    if stop is not None:
        return stop
    assert view.split is not None and view.ceilings is not None
    if view.split.dtype != "fp32":
        return Clear()
    fp32, bf16 = view.ceilings.flops.get("fp32"), view.ceilings.flops.get("bf16")
    if not fp32 or not bf16:
        return Undecidable("the measured bf16 rate of this machine")
    if bf16 < PAYS * fp32:
        return Clear()
    saved = view.shares["compute"] * (1.0 - fp32 / bf16)
    where = "cpu" if view.on_cpu else "cuda"
    facts = [evidence(
        f"matmuls run in fp32; bf16 is {bf16 / fp32:.1f}x as fast here "
        f"({bf16 / 1e12:.2f} against {fp32 / 1e12:.2f} TFLOP/s)", "bf16_over_fp32", bf16 / fp32,
    )]  # fmt: skip
    return finding(
        "precision", saved, "fp32 arithmetic where bf16 would do", facts,
        [f'with torch.autocast("{where}", dtype=torch.bfloat16): around forward and loss'],
    )  # fmt: skip


def small_batch(view: RunView) -> Judgement:
    stop = _base(view)
    if stop is not None:
        return stop
    reached = _efficiency(view)
    if reached is None or view.matrix_rows is None:
        return Undecidable("efficiency of the matmuls")
    if reached > POOR or view.matrix_rows > FEW_ROWS:
        return Clear()
    facts = [evidence(
        f"matmuls with {view.matrix_rows:.0f} rows reach {percent(reached)} of the calibrated rate",
        "efficiency", reached,
    )]  # fmt: skip
    return finding(
        "small-batch", view.shares["compute"] * (1 - reached), "Matmuls are too small for the "
        "machine's rate", facts, ["raise the batch size: larger matmuls run nearer the ceiling"],
    )  # fmt: skip


def good(view: RunView) -> Judgement:
    stop = _base(view)
    if stop is not None:
        return stop
    reached = _efficiency(view)
    if reached is None:
        return Undecidable("efficiency of the compute-limited operators")
    if reached < GOOD:
        return Clear()
    facts = [evidence(
        f"compute-limited operators reach {percent(reached)} of the calibrated rate", "efficiency",
        reached,
    )]  # fmt: skip
    done = finding(
        "good", view.shares["compute"], "Near this machine's arithmetic rate", facts,
        ["only less arithmetic or a faster machine would make it faster"], limit=speedup_limit(0.0)
    )  # fmt: skip
    done.severity = "info"
    return done
