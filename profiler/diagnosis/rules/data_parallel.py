"""nn.DataParallel: threads of one process drive all devices and share one interpreter."""

from __future__ import annotations

from ....hooks import wire
from ..model import Clear, Judgement, RunView, evidence
from .common import unpriced


def judge(view: RunView) -> Judgement:
    used = [p for p in view.parallel if p.get("name") == wire.DATA_PARALLEL]
    if not used:
        return Clear()
    devices = max(int(p.get("devices") or 0) for p in used)
    facts = [evidence(f"nn.DataParallel over {devices} devices", "data_parallel_devices", devices,
                      "devices")]  # fmt: skip
    return unpriced(
        "gil", "nn.DataParallel drives all devices from one Python process", facts,
        ["DistributedDataParallel, one process a device (torchrun --nproc-per-node=N): the threads "
         "of DataParallel take turns in the interpreter, and it copies the model to every device "
         "in every step"],
        severity="warning" if devices > 1 else "info",
    )  # fmt: skip
