"""DataLoader: the waits of the thread that iterates, and the making of batches.

A wait is the making of the iterator and every `next`, the one that ends the epoch included: with
spawned workers each end costs as much as many batches.
"""

import os
import sys
import weakref

from .. import ring, wire
from ..facts import fact
from ..patching import Hook, undress, user_frame
from ..threads import inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

waits, batches, making = Hook("data wait"), Hook("batch size"), Hook("loader worker")
clock, cpu_clock = ring.clock, ring.cpu_clock

FLAG, IDENT, VALUE = wire.FLAG_SHIFT, wire.IDENT_SHIFT, wire.VALUE_SHIFT
ITER_END = wire.F_ITER_END << FLAG
RAISED = wire.F_RAISED << FLAG
torch_c: "Any" = sys.modules["torch"]._C
Tensor: "Any" = sys.modules["torch"].Tensor
workers: "Any" = sys.modules["torch.utils.data._utils.worker"]  # has a note in each of them
SEQUENCES = (tuple, list)
LOADER = "_accelprof_loader"  # attribute of an iterator; it cannot be pickled anyway

_loaders = 0
ends: "list[Any]" = []  # called after each wait: modules.py looks for new roots there
_samples: "dict[int, int]" = {}  # per loader, of its last batch


def install(module: "Any") -> None:
    """torch.utils.data.dataloader"""
    waits.wrap(module._BaseDataLoaderIter, "__next__", _next)
    install_class(module.DataLoader)
    fetch = sys.modules["torch.utils.data._utils.fetch"]
    making.wrap(fetch._BaseDatasetFetcher, "__init__", _fetcher_init)
    for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        making.wrap(getattr(fetch, name), "fetch", _fetch)


def install_stateful(module: "Any") -> None:
    """torchdata: its loader has copies of its own of all but `next` and the fetchers."""
    install_class(module.StatefulDataLoader)


def install_class(loader: "Any") -> None:
    waits.wrap(loader, "__init__", _init)
    waits.wrap(loader, "__iter__", _iter)


# -- the loader -------------------------------------------------------------------------------

_where: "dict[int, str | None]" = {}  # id of a loader: where the user made it
_idents: "dict[int, int]" = {}


def _init(original: "Any") -> "Any":
    def __init__(self: "Any", *args: "Any", **kwargs: "Any") -> None:
        try:
            original(self, *args, **kwargs)
        except BaseException as error:
            undress(error)
            raise
        try:
            if id(self) not in _where:
                _where[id(self)] = user_frame()
                weakref.finalize(self, _forget, id(self)).atexit = False
        except Exception as error:
            waits.fail(error)

    return __init__


def _forget(key: int) -> None:
    _where.pop(key, None)
    _idents.pop(key, None)


def _ident(loader: "Any") -> int:
    """The number of a loader; its first use tells its facts."""
    global _loaders
    known = _idents.get(id(loader))
    if known is not None:
        return known
    _loaders += 1
    ident = min(_loaders, wire.IDENT_MAX)
    if id(loader) in _where:  # else it skipped DataLoader.__init__, and its end is not seen
        _idents[id(loader)] = ident
    context = getattr(loader, "multiprocessing_context", None)
    fact(
        wire.FACT_LOADER,
        id=ident,
        num_workers=loader.num_workers,
        batch_size=getattr(loader, "batch_size", None),
        prefetch=getattr(loader, "prefetch_factor", None),
        pin_memory=bool(getattr(loader, "pin_memory", False)),
        persistent=bool(getattr(loader, "persistent_workers", False)),
        context=getattr(context, "_name", None) or _start_method(loader.num_workers),
        dataset=type(getattr(loader, "dataset", None)).__qualname__,
        collate=getattr(getattr(loader, "collate_fn", None), "__name__", None),
        length=None,  # len() would run the job's code
        where=_where.get(id(loader)),
    )
    return ident


def _start_method(workers: int) -> "str | None":
    if not workers:
        return None
    import multiprocessing

    return multiprocessing.get_start_method(allow_none=True) or "fork"


def _iter(original: "Any") -> "Any":
    def __iter__(self: "Any") -> "Any":
        here, ident = inside(), 0
        outermost, meta = not here.data, here.other | wire.DATA_WAIT | wire.F_ITER_START << FLAG
        here.data = True
        start, cpu = clock(), cpu_clock()
        try:
            iterator = original(self)
            try:
                ident = iterator.__dict__[LOADER] = _ident(self)
            except Exception as error:
                waits.fail(error)
            return iterator
        except BaseException as error:
            meta |= RAISED
            undress(error)
            raise
        finally:
            if outermost:
                here.data = False
                if not waits.off:
                    _wrote(start, meta | ident << IDENT, cpu)

    return __iter__


def _wrote(start: int, meta: int, cpu: int) -> None:
    try:
        ring.emit(start, clock(), meta | ((cpu_clock() - cpu) // 1000 & wire.VALUE_MAX) << VALUE)
        for end in ends:
            end()
    except Exception as error:
        waits.fail(error)


def _next(original: "Any") -> "Any":
    def __next__(self: "Any") -> "Any":
        here = inside()
        if here.data:  # a loader that feeds a loader
            try:
                return original(self)
            except BaseException as error:
                undress(error)
                raise
        here.data = True
        meta, ident = wire.DATA_WAIT | here.other, self.__dict__.get(LOADER, 0)
        start, cpu = clock(), cpu_clock()
        try:
            batch = original(self)
            try:  # the usual case here, for its speed: a tuple of tensors
                first = batch[0] if batch.__class__ in SEQUENCES else batch
                if first.__class__ is not Tensor or first.shape[0] != _samples.get(ident):
                    _batch(ident, batch)
            except Exception:
                _batch(ident, batch)
            return batch
        except StopIteration as error:
            meta |= ITER_END
            undress(error)
            raise
        except BaseException as error:
            meta |= RAISED
            undress(error)
            raise
        finally:
            here.data = False
            if not waits.off:
                _wrote(start, meta | ident << IDENT, cpu)

    return __next__


# -- the size of a batch ----------------------------------------------------------------------


def _batch(ident: int, batch: "Any") -> None:
    """A BATCH record, before the wait that brought it, when the number of samples changes."""
    if batches.off:
        return
    try:
        with torch_c.DisableTorchFunction():
            samples = leading(batch)
        if samples is not None and samples != _samples.get(ident):
            _samples[ident] = samples
            now = clock()
            ring.emit(now, now, ring.meta(wire.BATCH, ident, samples) | inside().other)
    except Exception as error:
        batches.fail(error)


def leading(batch: "Any", depth: int = 4) -> "int | None":
    """The leading dimension of the first thing with a shape; None when there is none near."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if isinstance(shape, tuple) and len(shape) > 0 else None
    if depth == 0:
        return None
    if isinstance(batch, dict):
        inner: "Any" = batch.values()
    elif isinstance(batch, (list, tuple)):
        inner = batch[:8]
    else:
        data = getattr(batch, "data", None)  # transformers' BatchEncoding and its like
        inner = (data if isinstance(data, dict) else getattr(batch, "__dict__", {})).values()
    for _, part in zip(range(8), inner):
        found = leading(part, depth - 1)
        if found is not None:
            return found
    return None


# -- the making of batches, in a worker or in process -----------------------------------------


def _fetcher_init(original: "Any") -> "Any":
    def __init__(self: "Any", *args: "Any", **kwargs: "Any") -> None:
        original(self, *args, **kwargs)
        try:
            worker = workers._worker_info
            if worker is not None:
                _tell_worker(worker)
            if not making.off:
                self.collate_fn = Collate(self.collate_fn, 0 if worker is None else worker.id + 1)
        except Exception as error:
            making.fail(error)

    return __init__


_told = 0


def _tell_worker(worker: "Any") -> None:
    global _told
    if _told != os.getpid():
        _told = os.getpid()
        inside().data = True  # all it does is make batches: transforms are no models
        fact(wire.FACT_WORKER, worker=worker.id, parent=os.getppid())


# In the training process a batch that is made quickly is recorded once in so many: recording each
# cost more there than it told (8 us of a step on a 2-core virtual machine).
QUICK_NS, QUICK_SKIPS = 500_000, 31
_skips = 0  # quick batches that are still left out


def _fetch(original: "Any") -> "Any":
    def fetch(self: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        global _skips
        if _skips:
            try:
                return original(self, *args, **kwargs)
            except BaseException as error:
                undress(error)
                raise
            finally:
                _skips -= 1  # after it: its collate is left out with it
        start, cpu = clock(), cpu_clock()
        try:
            batch = original(self, *args, **kwargs)
        except BaseException as error:
            undress(error)
            raise
        if not making.off:
            try:
                worker = workers._worker_info
                meta = wire.FETCH | inside().other
                spent, end = (cpu_clock() - cpu) // 1000 & wire.VALUE_MAX, clock()
                if worker is not None:
                    meta |= worker.id + 1 << IDENT
                elif end - start < QUICK_NS:
                    _skips = QUICK_SKIPS
                ring.emit(start, end, meta | spent << VALUE)
            except Exception as error:
                making.fail(error)
        return batch

    return fetch


class Collate:
    """The collate function of a fetcher, timed. Fetchers are made where they are used."""

    def __init__(self, function: "Any", ident: int) -> None:
        self.function = function
        self.meta = wire.COLLATE | ident << IDENT

    def __call__(self, samples: "Any") -> "Any":
        start = 0 if _skips else clock()
        try:
            batch = self.function(samples)
        except BaseException as error:
            undress(error)
            raise
        if start and not making.off:
            try:
                ring.emit(start, clock(), self.meta | inside().other)
            except Exception as error:
                making.fail(error)
        return batch

    def __getattr__(self, name: str) -> "Any":
        return getattr(self.__dict__["function"], name)
