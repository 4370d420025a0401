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
    # Not every device multiplies bf16 (V100, T4): fp16 then, which needs a scaler
    rates = view.ceilings.flops
    half = "bf16" if view.on_cpu or "bf16" in rates else "fp16"
    now = rates.get("tf32") if "tf32" in view.split.flops else rates.get("fp32")
    fast = rates.get(half)
    if not now or not fast:
        return Undecidable(f"the {half} rate of this machine")
    if fast < PAYS * now:
        return Clear()
    saved = view.shares["compute"] * (1.0 - now / fast)
    facts = [evidence(
        f"matmuls run in fp32; {half} is {fast / now:.1f}x as fast here "
        f"({fast / 1e12:.2f} against {now / 1e12:.2f} TFLOP/s, {view.ceilings.source})",
        f"{half}_over_fp32", fast / now,
    )]  # fmt: skip
    where, name = ("cpu" if view.on_cpu else "cuda"), {"bf16": "bfloat16"}.get(half, "float16")
    scaler = "" if half == "bf16" else ", and torch.amp.GradScaler for the gradients"
    return finding(
        "precision", saved, f"fp32 arithmetic where {half} would do", facts,
        [f'with torch.autocast("{where}", dtype=torch.{name}): around forward and loss{scaler}'],
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
