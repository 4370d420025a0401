"""Calls into torch.distributed, as the host saw them."""

import sys

from .. import wire
from ..patching import Hook
from ..timing import timed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

hook = Hook("collectives")
NAMES = (
    "all_reduce", "all_reduce_coalesced", "all_gather", "all_gather_into_tensor",
    "all_gather_coalesced", "all_gather_object", "broadcast", "broadcast_object_list", "reduce",
    "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "gather",
    "gather_object", "scatter", "scatter_object_list", "barrier", "monitored_barrier", "send",
    "recv", "isend", "irecv", "batch_isend_irecv",
)  # fmt: skip


def install(module: "Any") -> None:
    """torch.distributed.distributed_c10d, whose functions torch.distributed hands out"""
    make = timed(hook, wire.COLLECTIVE, "collective")
    distributed = sys.modules["torch.distributed"]
    for name in NAMES:
        original = getattr(module, name, None)
        if original is None:
            continue
        hook.wrap(module, name, make)
        if getattr(distributed, name, None) is original:
            hook.replace(distributed, name, getattr(module, name))
