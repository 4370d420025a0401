"""Calls into torch.distributed and waits for their results, as the host saw them."""

import sys

from .. import wire
from ..facts import fact
from ..patching import Hook, undress
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
        _wrap_both(module, distributed, name, make)
    if hasattr(module, "Work"):  # of asynchronous calls: FSDP's are
        hook.wrap(module.Work, "wait", make)
    if hasattr(module, "init_process_group"):
        _wrap_both(module, distributed, "init_process_group", _joining)


def _wrap_both(module: "Any", distributed: "Any", name: str, make: "Any") -> None:
    """In its own module and where torch.distributed hands it out."""
    original = getattr(module, name)
    hook.wrap(module, name, make)
    if getattr(distributed, name, None) is original:
        hook.replace(distributed, name, getattr(module, name))


def _joining(original: "Any") -> "Any":
    def init_process_group(*args: "Any", **kwargs: "Any") -> "Any":
        try:
            found = original(*args, **kwargs)
        except BaseException as error:
            undress(error)
            raise
        try:
            module = sys.modules["torch.distributed.distributed_c10d"]
            fact(
                wire.FACT_GROUP,
                rank=module.get_rank(),
                world_size=module.get_world_size(),
                backend=str(module.get_backend()),
            )
        except Exception as error:
            hook.fail(error)
        return found

    return init_process_group


ddp = Hook("ddp")


def install_ddp(module: "Any") -> None:
    """torch.nn.parallel.distributed"""
    ddp.after_init(module.DistributedDataParallel, _distributed)


def install_data_parallel(module: "Any") -> None:
    """torch.nn.parallel.data_parallel"""
    ddp.after_init(module.DataParallel, _threads)


def _distributed(model: "Any") -> None:
    from . import parallel  # only in jobs that use it

    parallel.wrapped(model)


def _threads(model: "Any") -> None:
    fact(wire.FACT_PARALLEL, name=wire.DATA_PARALLEL, devices=len(model.device_ids))
