"""Other settings for one trial of `accelprof tune`: put in where the job makes its DataLoader.

Installed only when ACCELPROF_TUNE asks. It is JSON:

    {"where": "file:line" or null, "loader": {"num_workers": 4, ...}, "replay": false,
     "main_threads": 2, "worker_threads": 1, "cudnn_benchmark": true, "matmul_precision": "high"}

`where` names the line that makes the loader in question; other loaders stay as they are.
`replay`: after a few batches the loader hands them out again, from memory (the ceiling trial).
"""

import copy
import inspect
import json
import os
import sys

from .. import wire
from ..facts import fact
from ..patching import Hook, undress, user_frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

hook = Hook("overrides")
asked: "dict[str, Any]" = json.loads(os.environ[wire.ENV_TUNE])
STORE = "_accelprof_replay"  # attribute of a loader and of its iterators
MOST_BATCHES, MOST_BYTES = 8, 256 << 20
ITERATORS = (
    "_SingleProcessDataLoaderIter",
    "_MultiProcessingDataLoaderIter",
    "_StatefulSingleProcessDataLoaderIter",
    "_StatefulMultiProcessingDataLoaderIter",
)


def install(module: "Any") -> None:
    """torch.utils.data.dataloader, which torch itself imports"""
    _install_torch(sys.modules["torch"])
    install_loader(module)
    if "worker_threads" in asked:
        fetch = sys.modules["torch.utils.data._utils.fetch"]
        hook.wrap(fetch._BaseDatasetFetcher, "__init__", _fetcher_init)


def _install_torch(torch: "Any") -> None:
    """Settings of torch itself; threads only in the job's processes, not in loader workers."""
    if "cudnn_benchmark" in asked:
        torch.backends.cudnn.benchmark = asked["cudnn_benchmark"]
    if "matmul_precision" in asked:
        torch.set_float32_matmul_precision(asked["matmul_precision"])
    parent = sys.modules.get("multiprocessing.process")
    if "main_threads" in asked and (parent is None or parent.parent_process() is None):
        torch.set_num_threads(asked["main_threads"])
        hook.wrap(torch, "set_num_threads", _set_num_threads)


def _set_num_threads(original: "Any") -> "Any":
    main = os.getpid()

    def set_num_threads(count: int) -> None:
        original(asked["main_threads"] if os.getpid() == main else count)

    return set_num_threads


def install_loader(module: "Any") -> None:
    """The same module, or torchdata's, which has copies of its own of all this"""
    for name in ("DataLoader", "StatefulDataLoader"):
        loader = vars(module).get(name)
        if loader is not None and loader.__module__ == module.__name__:
            hook.wrap(loader, "__init__", _init)
            if asked.get("replay"):
                hook.wrap(loader, "__iter__", _iter)
    if asked.get("replay"):
        for name in ITERATORS:
            if name in vars(module):
                hook.wrap(vars(module)[name], "_next_data", _next_data)


def _fetcher_init(original: "Any") -> "Any":
    """A worker makes its fetcher after it went down to one thread."""

    def __init__(*args: "Any", **kwargs: "Any") -> None:
        worker = sys.modules["torch.utils.data._utils.worker"]
        if worker._worker_info is not None:
            sys.modules["torch"].set_num_threads(asked["worker_threads"])
        original(*args, **kwargs)

    return __init__


# -- the loader's arguments --------------------------------------------------------------------


def _init(original: "Any") -> "Any":
    signature = inspect.signature(original)

    def __init__(self: "Any", *args: "Any", **kwargs: "Any") -> None:
        try:
            where = user_frame()
            if asked.get("where") in (None, where) and not hook.off:
                bound = signature.bind(self, *args, **kwargs)
                args, kwargs = _changed(bound)
                if asked.get("replay"):
                    self.__dict__[STORE] = Replay()
                fact(wire.FACT_TUNED, where=where)
        except Exception as error:
            hook.fail(error)
        try:
            original(self, *args, **kwargs)
        except BaseException as error:
            undress(error)
            raise

    return __init__


def _changed(bound: "Any") -> "tuple[Any, Any]":
    """The call's arguments with what was asked for, and without what would then be refused."""
    given = bound.arguments
    wanted = dict(asked.get("loader") or {})
    workers = 0 if asked.get("replay") else wanted.get("num_workers", given.get("num_workers", 0))
    given["num_workers"] = workers
    if workers == 0:
        for name in ("prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context"):
            given.pop(name, None)
            wanted.pop(name, None)
        wanted.pop("num_workers", None)
    given.update(wanted)
    return bound.args[1:], bound.kwargs


# -- batches out of memory ---------------------------------------------------------------------


class Replay:
    """The first batches of a loader, handed out again and again.

    Containers are copied each time, for jobs that pop from them; a tensor that the job changed in
    place is replaced from a copy made when the batch was new.
    """

    def __init__(self) -> None:
        self.batches: "list[Any]" = []
        self.fresh: "list[Any]" = []
        self.bytes = 0
        self.at = 0

    @property
    def full(self) -> bool:
        return len(self.batches) >= MOST_BATCHES or self.bytes >= MOST_BYTES

    def keep(self, batch: "Any") -> "Any":
        """Takes a new batch in; what the job gets."""
        torch = sys.modules["torch"]

        def taken(tensor: "Any") -> "Any":
            self.bytes += tensor.numel() * tensor.element_size()
            clone = tensor.clone()
            return clone.pin_memory() if tensor.is_pinned() else clone

        self.fresh.append(_mapped(batch, taken, torch.Tensor))
        self.batches.append(_mapped(batch, _Held, torch.Tensor))
        return _mapped(batch, lambda tensor: tensor, torch.Tensor)

    def again(self) -> "Any":
        """The next batch, as it was when it was new."""
        index = self.at % len(self.batches)
        self.at += 1
        if _dirty(self.batches[index]):
            clean = _mapped(self.fresh[index], lambda t: _Held(t.clone()), _tensor())
            self.batches[index] = clean
        return _mapped(self.batches[index], lambda held: held.tensor, _Held)


class _Held:
    """A tensor and what its version was when it was unchanged."""

    def __init__(self, tensor: "Any") -> None:
        self.tensor = tensor
        self.version = _version(tensor)

    def changed(self) -> bool:
        return _version(self.tensor) != self.version


def _version(tensor: "Any") -> int:
    try:
        return int(tensor._version)
    except RuntimeError:  # tensors of inference mode keep none
        return 0


def _tensor() -> "Any":
    return sys.modules["torch"].Tensor


def _mapped(batch: "Any", function: "Any", kind: "Any") -> "Any":
    """`batch` with new containers and `function` on everything of that kind."""
    if isinstance(batch, kind):
        return function(batch)
    if isinstance(batch, dict) or (hasattr(batch, "data") and isinstance(batch.data, dict)):
        made = copy.copy(batch)  # dictionaries, and transformers' BatchEncoding
        inner = made if isinstance(made, dict) else dict(made.data)
        for key, value in list(inner.items()):
            inner[key] = _mapped(value, function, kind)
        if made is not inner:
            made.data = inner
        return made
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_mapped(part, function, kind) for part in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(_mapped(part, function, kind) for part in batch)
    return batch


def _dirty(batch: "Any") -> bool:
    found = []
    _mapped(batch, lambda held: found.append(held.changed()), _Held)
    return any(found)


def _iter(original: "Any") -> "Any":
    def __iter__(self: "Any") -> "Any":
        iterator = original(self)
        if STORE in self.__dict__:
            iterator.__dict__[STORE] = self.__dict__[STORE]
        return iterator

    return __iter__


def _next_data(original: "Any") -> "Any":
    def _next_data(self: "Any") -> "Any":
        store = self.__dict__.get(STORE)
        try:
            if store is None:
                return original(self)
            if not store.full:
                return store.keep(original(self))
            self._next_index()  # the sampler goes on, so the epoch ends where it would
        except BaseException as error:
            undress(error)
            raise
        return store.again()

    return _next_data
