"""torch.compile compiles again while the job should be running."""

from __future__ import annotations

from ..model import Clear, Judgement, RunView, Undecidable, evidence, speedup_limit
from ..text import percent
from .common import finding

WORTH = 0.05  # of the steady part, which a compilation should have left behind
SAMPLES = 20


def judge(view: RunView) -> Judgement:
    if view.stacks.samples < SAMPLES:
        return Undecidable("stacks of the training thread")
    share = view.stacks.compiling
    if share < WORTH:
        return Clear()
    facts = [evidence(
        f"the training thread is in torch.compile's compiler in {percent(share)} of the samples "
        "after warm-up", "compile_share", share,
    )]  # fmt: skip
    return finding(
        "recompiles", share, "torch.compile keeps compiling", facts,
        ["pad inputs to a few fixed sizes, or torch.compile(model, dynamic=True) and "
         "torch._dynamo.mark_dynamic for the size that varies; TORCH_LOGS=recompiles names the "
         "guard that fails"],
        limit=speedup_limit(share),
    )  # fmt: skip
