"""Memory bandwidth limits: which kind of traffic it is, and what would lessen it."""

from __future__ import annotations

from ..model import Clear, Judgement, RunView, Split, Undecidable, evidence, speedup_limit
from ..text import percent
from .common import WORTH, finding

MOST = 0.5  # of the memory-limited time
FEW_ROWS = 16  # rows of a matmul under which each weight is read for little arithmetic
NEAR_CEILING = 0.7
# Of the traffic of a chain of element-wise operators at most this much is saved by one pass: its
# first read and last write stay (three quarters for a chain of four).
FUSION_SAVES = 0.75
# A foreach Adam step passes about 20 times over a parameter's size, one fused pass 7 times.
OPTIMIZER_SAVES = 0.65
BYTES = {"fp64": 8, "fp32": 4, "bf16": 2, "fp16": 2, "int8": 1, "fp8": 1}


def _split(view: RunView) -> Split | Judgement:
    if view.shares.get("memory", 0.0) < WORTH:
        return Clear()
    if view.split is None:
        return Undecidable("an operator capture")
    return view.split


def _is_inference(view: RunView) -> bool:
    kinds = [s.kind for s in view.steady.steps]
    return kinds.count("inference") * 2 > len(kinds)


def _balanced_rows(view: RunView) -> int | None:
    """Rows at which reading a weight and its arithmetic take equally long."""
    if view.ceilings is None:
        return None
    dtype = (view.split.dtype if view.split else None) or "fp32"
    rate = view.ceilings.flops.get(dtype)
    return round(rate / view.ceilings.bytes_per_s * BYTES.get(dtype, 4) / 2) if rate else None


def _narrow(view: RunView, split: Split) -> bool:
    rows = view.matrix_rows
    return split.memory_ops.get("matvec", 0.0) >= MOST and rows is not None and rows <= FEW_ROWS


def decode(view: RunView) -> Judgement:
    """Autoregressive inference: every token reads all weights."""
    split = _split(view)
    if not isinstance(split, Split):
        return split
    if not _is_inference(view) or not _narrow(view, split):
        return Clear()
    return _rows_finding(view, "decode", "Each token reads every weight once (matrix-vector "
                         "products)", "decode several sequences together")  # fmt: skip


def small_batch(view: RunView) -> Judgement:
    split = _split(view)
    if not isinstance(split, Split):
        return split
    if _is_inference(view) or not _narrow(view, split):
        return Clear()
    return _rows_finding(view, "small-batch", "The batch is too small to reuse the weights it "
                         "reads", "raise the batch size")  # fmt: skip


def _rows_finding(view: RunView, id: str, title: str, what: str) -> Judgement:
    share, split, rows = view.shares["memory"], view.split, view.matrix_rows or 1
    assert split is not None
    part = split.memory_ops.get("matvec", 0.0)
    facts = [
        evidence(
            f"{percent(part)} of the memory time is matmuls with {rows:.0f} row(s)", "matvec_share",
            part,
        ),
    ]  # fmt: skip
    lines = []
    balanced = _balanced_rows(view)
    limit = speedup_limit(share * (1 - BYTES["bf16"] / BYTES["fp32"]))
    if balanced and balanced > rows:
        limit = min(speedup_limit(share), round(balanced / rows, 2))
        lines.append(
            f"{what}: up to about {balanced} rows instead of {rows:.0f} the step takes hardly "
            "longer (where arithmetic and memory take the same time on this machine)"
        )
    lines.append("smaller weights: bf16 halves the bytes of fp32, int8 quarters them")
    return finding(id, share, title, facts, lines or [what], limit=limit)


def optimizer(view: RunView) -> Judgement:
    split = _split(view)
    if not isinstance(split, Split):
        return split
    part = split.memory_ops.get("optimizer", 0.0)
    if part < MOST:
        return Clear()
    share = view.shares["memory"] * part
    facts = [evidence(f"{percent(part)} of the memory time is the optimizer", "optimizer_share",
                      part)]  # fmt: skip
    name = view.optimizers[0].get("name") if view.optimizers else "the optimizer"
    return finding(
        "optimizer", share, "The optimizer's passes over the parameters take the bandwidth", facts,
        [f"{name}(..., fused=True): one pass over parameters and state instead of several; or a "
         "larger batch, so that it steps less often a sample"],
        limit=speedup_limit(share * OPTIMIZER_SAVES),
    )  # fmt: skip


def unfused(view: RunView) -> Judgement:
    split = _split(view)
    if not isinstance(split, Split):
        return split
    part = split.memory_ops.get("elementwise", 0.0)
    if part < MOST:
        return Clear()
    share = view.shares["memory"] * part
    names = [o["name"] for o in split.ops if o["bound"] == "memory"][:3]
    facts = [evidence(
        f"{percent(part)} of the memory time is element-wise operators, each a pass over memory: "
        + ", ".join(names), "elementwise_share", part,
    )]  # fmt: skip
    return finding(
        "unfused-ops", share, "Element-wise operators each read and write whole tensors", facts,
        ["torch.compile(model) fuses chains of them into one pass; in-place variants and bf16 "
         "activations lessen the traffic too"],
        limit=speedup_limit(share * FUSION_SAVES),
    )  # fmt: skip


def good(view: RunView) -> Judgement:
    split = _split(view)
    if not isinstance(split, Split):
        return split
    known = [(o["efficiency"], o["share"]) for o in split.ops
             if o["bound"] == "memory" and o["efficiency"] is not None]  # fmt: skip
    weight = sum(s for _, s in known)
    if not weight or (reached := sum(e * s for e, s in known) / weight) < NEAR_CEILING:
        return Clear()
    facts = [evidence(f"memory-limited operators reach {percent(reached)} of the calibrated "
                      "bandwidth", "efficiency", reached)]  # fmt: skip
    done = finding("good", view.shares["memory"], "Near this machine's memory bandwidth", facts,
                   ["the operators are as fast as memory allows: move fewer bytes, or use memory "
                    "with more bandwidth"], limit=speedup_limit(0.0))  # fmt: skip
    done.severity = "info"
    return done
