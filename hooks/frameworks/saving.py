"""Checkpoints, and what makes them durable."""

import sys
from io import BytesIO

from .. import wire
from ..patching import Hook, undress
from ..threads import inside
from ..timing import timed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

hook, syncs = Hook("checkpoint"), Hook("fsync")
_saving = timed(hook, wire.CHECKPOINT, "saving")
SMALL_NS = 1_000_000  # a metric, an index, a state of a few numbers
_dumping = timed(hook, wire.CHECKPOINT, "saving", SMALL_NS)


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


def install_transformers(module: "Any") -> None:
    """transformers.modeling_utils"""
    hook.wrap(module.PreTrainedModel, "save_pretrained", _saving)


def install_pickle(module: "Any") -> None:
    """pickle, whose dump to a file is many a job's checkpoint"""
    native = sys.modules.get("_pickle")
    same = native is not None and native.dump is module.dump
    hook.wrap(module, "dump", _dump)
    if same:  # where pickling looks for the function's own name
        hook.replace(native, "dump", module.dump)


def install_numpy(module: "Any") -> None:
    """numpy"""
    for name in ("save", "savez", "savez_compressed"):
        hook.wrap(module, name, _dump)


def install_joblib(module: "Any") -> None:
    """joblib"""
    defined = sys.modules.get(getattr(module.dump, "__module__", ""))
    hook.wrap(module, "dump", _dump)
    if defined is not None and hasattr(defined, "dump"):
        hook.replace(defined, "dump", module.dump)


def _dump(original: "Any") -> "Any":
    """For what writes anything to a file: calls that take long are checkpoints."""
    timed_one = _dumping(original)

    def dump(*args: "Any", **kwargs: "Any") -> "Any":
        try:  # a data set that keeps what it made is no checkpoint, nor is a buffer in memory
            aside = inside().data or any(issubclass(type(one), BytesIO) for one in args[:2])
            return (original if aside else timed_one)(*args, **kwargs)
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
