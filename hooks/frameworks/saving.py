"""Checkpoints, and what makes them durable."""

import sys

from .. import wire
from ..patching import Hook, undress
from ..threads import inside
from ..timing import timed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

hook, syncs = Hook("checkpoint"), Hook("fsync")
_saving = timed(hook, wire.CHECKPOINT, "saving")


def install_save(module: "Any") -> None:
    """torch.serialization, where torch.save comes from"""
    torch = sys.modules["torch"]
    same = torch.save is module.save
    hook.wrap(module, "save", _saving, inline=True)
    if same:
        hook.replace(torch, "save", module.save)


def install_distributed(module: "Any") -> None:
    """torch.distributed.checkpoint"""
    for name in ("save", "async_save", "save_state_dict"):
        defined = sys.modules.get(getattr(getattr(module, name, None), "__module__", ""))
        hook.wrap(module, name, _saving, inline=True)
        if defined is not None and defined is not module and hasattr(defined, name):
            hook.replace(defined, name, getattr(module, name))


def install_safetensors(module: "Any") -> None:
    """safetensors.torch"""
    for name in ("save_file", "save_model"):
        hook.wrap(module, name, _saving, inline=True)


def install_pickle(module: "Any") -> None:
    """pickle, whose dump to a file is many a job's checkpoint"""
    native = sys.modules.get("_pickle")
    same = native is not None and native.dump is module.dump
    hook.wrap(module, "dump", _dump)
    if same:  # where pickling looks for the function's own name
        hook.replace(native, "dump", module.dump)


def _dump(original: "Any") -> "Any":
    timed_one = _saving(original)

    def dump(*args: "Any", **kwargs: "Any") -> "Any":
        try:  # a data set that keeps what it made is no checkpoint
            return (original if inside().data else timed_one)(*args, **kwargs)
        except BaseException as error:
            undress(error)
            raise

    return dump


def install_sync(module: "Any") -> None:
    """os"""
    syncing = timed(syncs, wire.FSYNC, "syncing")
    for name in ("fsync", "fdatasync"):
        in_supports = getattr(module, name) in module.supports_fd
        syncs.wrap(module, name, syncing)
        if in_supports:
            module.supports_fd.add(getattr(module, name))
