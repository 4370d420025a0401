"""The host reads values of the device in every step and so waits for all queued work."""

from __future__ import annotations

from ..model import Clear, Judgement, RunView, Undecidable, evidence, speedup_limit
from ..text import many, percent
from .common import WORTH, finding, hot_places

EACH_STEP = 1.0
NAMES = {
    "aten::_local_scalar_dense": ".item(), float(t), a tensor in `if`",
    "aten::nonzero": "nonzero or a boolean mask as an index",
    "aten::is_nonzero": "a tensor in `if`",
    "aten::masked_select": "masked_select",
    "cudaStreamSynchronize": "cudaStreamSynchronize",
    "cudaDeviceSynchronize": "torch.cuda.synchronize()",
}


def judge(view: RunView) -> Judgement:
    host = view.shares.get("host", 0.0)
    if view.on_cpu or host < WORTH:
        return Clear()  # on a CPU nothing is queued: reading a value is free
    if not view.has_capture:
        return Undecidable("an operator capture")
    calls = {k: n for k, n in view.synchronisations.items() if n >= EACH_STEP}
    if not calls:
        return Clear()
    busy = view.device.busy_share
    if busy is None:
        return Undecidable("utilisation of the device")
    # Without the wait host and device work side by side: the shorter of the two is saved at most.
    # What the host waits while the device works is no loss, and is not promised.
    cost = min(host, busy)
    facts = [
        evidence(f"{many(n, 'call')} a step of {name.removeprefix('aten::')} "
                 f"({NAMES.get(name, 'waits for the device')})", "syncs_per_step", n)
        for name, n in sorted(calls.items(), key=lambda kv: -kv[1])[:3]
    ]  # fmt: skip
    facts.append(evidence(f"the device is idle {percent(host)} of the time for the host",
                          "host_share", host))  # fmt: skip
    facts += hot_places(view, "user")
    return finding(
        "synchronisation", cost, "Each step waits for the device to read a value", facts,
        ["keep losses and metrics as tensors on the device (total += loss.detach()) and read them "
         "every 50 steps; torch.cuda.set_sync_debug_mode(\"warn\") names each line that waits"],
        limit=speedup_limit(cost),
    )  # fmt: skip
