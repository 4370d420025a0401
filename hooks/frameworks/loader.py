"""DataLoader: the waits of the thread that iterates, and the making of batches.

A wait is the making of the iterator and every `next`, the one that ends the epoch included: with
spawned workers each end costs as much as many batches.
"""

import os
import sys
import weakref
from _thread import get_ident

from .. import ring, wire
from ..facts import fact
from ..patching import Hook, undress, user_frame
from ..ring import emit, flush, keep
from ..threads import home, inside
from . import lengths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

waits, batches, making = Hook("data wait"), Hook("batch size"), Hook("loader worker")
clock, cpu_clock = ring.clock, ring.cpu_clock

FLAG, IDENT, VALUE = wire.FLAG_SHIFT, wire.IDENT_SHIFT, wire.VALUE_SHIFT
ITER_END, NO_CPU = wire.F_ITER_END << FLAG, wire.F_NO_CPU << FLAG
RAISED = wire.F_RAISED << FLAG
torch_c: "Any" = sys.modules["torch"]._C
Tensor: "Any" = sys.modules["torch"].Tensor
workers: "Any" = sys.modules["torch.utils.data._utils.worker"]  # has a note in each of them
SEQUENCES = (tuple, list)
FEED = "_accelprof_feed"  # attribute of an iterator; it cannot be pickled anyway

# The first CLOSE waits of a loader are looked at closely (their CPU time; in process how the batch
# was made), then one each REST_NS or so: in a quick step two readings of a thread's CPU time cost
# 9 us and timing a batch 8 us, more in a step that leaves nothing in the cache. The rest is not
# always the same: workers bring batches in a rhythm. Of batches that were all of one size so far
# every SIZES-th is looked at for its size, which costs 2 us.
CLOSE, REST_NS, SIZES = 32, 50_000_000, 8
VARIED_NS = (1 << 23) - 1  # up to 8 ms more

_loaders = 0


def look_out() -> None:
    """Stands for what modules.py does after a wait, to find new roots."""


class Feed:
    """What is known of a loader."""

    __slots__ = ("again", "ident", "looks", "meta", "samples", "turn", "varies")

    def __init__(self, ident: int) -> None:
        self.ident = ident
        self.meta = wire.DATA_WAIT | ident << IDENT
        self.samples = -1  # of its last batch
        self.varies = False  # batches of two sizes were seen
        self.turn = 0  # of SIZES
        self.looks = 0  # close ones so far
        self.again = 0  # when the next is due


def install(module: "Any") -> None:
    """torch.utils.data.dataloader"""
    setattr(module._BaseDataLoaderIter, FEED, Feed(0))  # of iterators that were made past us
    waits.wrap(module._BaseDataLoaderIter, "__next__", _next)
    install_class(module.DataLoader)
    fetch = sys.modules["torch.utils.data._utils.fetch"]
    making.wrap(fetch._BaseDatasetFetcher, "__init__", _fetcher_init)


def install_stateful(module: "Any") -> None:
    """torchdata: its loader has copies of its own of all but `next` and the fetchers."""
    install_class(module.StatefulDataLoader)


def install_class(loader: "Any") -> None:
    waits.after_init(loader, _made)
    waits.wrap(loader, "__iter__", _iter)


# -- the loader -------------------------------------------------------------------------------

_where: "dict[int, str | None]" = {}  # id of a loader: where the user made it
_feeds: "dict[int, Feed]" = {}


def _made(loader: "Any") -> None:
    if id(loader) not in _where:
        _where[id(loader)] = user_frame()
        weakref.finalize(loader, _forget, id(loader)).atexit = False


def _forget(key: int) -> None:
    _where.pop(key, None)
    _feeds.pop(key, None)


def _feed(loader: "Any") -> Feed:
    """The number of a loader and its state; its first use tells its facts."""
    global _loaders
    known = _feeds.get(id(loader))
    if known is not None:
        return known
    _loaders += 1
    ident = min(_loaders, wire.IDENT_MAX)
    feed = Feed(ident)
    if id(loader) in _where:  # else it skipped DataLoader.__init__, and its end is not seen
        _feeds[id(loader)] = feed
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
        length=lengths.length(loader),
        where=_where.get(id(loader)),
    )
    return feed


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
                feed = _feed(self)
                setattr(iterator, FEED, feed)
                ident = feed.ident
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
                try:
                    emit(start, clock(), meta | ident << IDENT | _spent(cpu))
                    if home.news:
                        look_out()
                except Exception as error:
                    waits.fail(error)

    return __iter__


def _spent(cpu: int) -> int:
    """CPU time of this thread since the reading `cpu`, as the value of a record."""
    return ((cpu_clock() - cpu) // 1000 & wire.VALUE_MAX) << VALUE


def _next(original: "Any") -> "Any":
    def __next__(self: "Any") -> "Any":
        here = home if home.thread == get_ident() else inside()
        if here.data:  # a loader that feeds a loader
            try:
                return original(self)
            except BaseException as error:
                undress(error)
                raise
        here.data = True
        feed, look, mark = self._accelprof_feed, None, None
        meta, timer = feed.meta | here.other, here.timer
        start = clock()
        if start >= feed.again or timer is not None:
            look = Look(self, feed, start) if start >= feed.again else None
            mark = timer.mark() if timer is not None else None
            start = clock()
        try:
            batch = original(self)
            feed.turn = turn = (feed.turn + 1) % SIZES
            if look is not None or feed.varies or not turn:
                _size(feed, batch)
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
            end = clock()
            try:
                keep((start, end, meta | (NO_CPU if look is None else look.end())))
                if end >= home.late:
                    flush()
                if mark is not None:
                    timer.done(wire.DATA_WAIT, start, mark)
                if home.news:
                    look_out()
            except Exception as error:
                waits.fail(error)

    return __next__


class Look:
    """A close look at one wait."""

    def __init__(self, iterator: "Any", feed: Feed, now: int) -> None:
        """Never raises."""
        feed.looks += 1
        if feed.looks >= CLOSE:
            feed.again = now + REST_NS + (now & VARIED_NS)
        self.fetcher: "Any" = None
        try:
            self.fetcher = getattr(iterator, "_dataset_fetcher", None)
            if self.fetcher is not None and not making.off:
                watch(self.fetcher, 0)
        except Exception as error:
            making.fail(error)
        self.cpu = cpu_clock()

    def end(self) -> int:
        """The CPU time of the wait, as the value of its record."""
        spent = _spent(self.cpu)
        if self.fetcher is not None:
            unwatch(self.fetcher)
        return spent


# -- the size of a batch ----------------------------------------------------------------------


def _size(feed: Feed, batch: "Any") -> None:
    """A BATCH record, before the wait that brought it, when the number of samples changes."""
    if batches.off:
        return
    try:  # the usual case first, for its speed: a tuple of tensors
        first = batch[0] if batch.__class__ in SEQUENCES else batch
        if first.__class__ is Tensor and first.shape[0] == feed.samples:
            return
    except Exception:
        pass
    try:
        with torch_c.DisableTorchFunction():
            samples = leading(batch)
        if samples is not None and samples != feed.samples:
            feed.varies = feed.samples >= 0
            feed.samples = samples
            now = clock()
            emit(now, now, ring.meta(wire.BATCH, feed.ident, samples) | inside().other)
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
                    watch(self, worker.id + 1)
        except Exception as error:
            making.fail(error)

    return __init__


_told = 0


def _tell_worker(worker: "Any") -> None:
    global _told
    if _told != os.getpid():
        _told = os.getpid()
        inside().data = True  # all it does is make batches: transforms are no models
        ring.at_once()  # it ends by os._exit
        fact(wire.FACT_WORKER, worker=worker.id, parent=os.getppid())


def watch(fetcher: "Any", ident: int) -> None:
    """Times the batches that a fetcher makes, by attributes of its own."""
    fetcher.collate_fn = Collate(fetcher.collate_fn, ident)
    fetcher.fetch = Fetch(fetcher, ident)


def unwatch(fetcher: "Any") -> None:
    own = vars(fetcher)
    if isinstance(own.get("fetch"), Fetch):
        del fetcher.fetch
    if isinstance(own.get("collate_fn"), Collate):
        fetcher.collate_fn = fetcher.collate_fn.function


class Fetch:
    """The `fetch` of one fetcher, timed."""

    def __init__(self, fetcher: "Any", ident: int) -> None:
        self.fetcher = weakref.ref(fetcher)  # no cycle: a dataset's files close when they did
        self.meta = wire.FETCH | ident << IDENT

    def __call__(self, *args: "Any", **kwargs: "Any") -> "Any":
        fetcher: "Any" = self.fetcher()
        start, cpu = clock(), cpu_clock()
        try:
            batch = type(fetcher).fetch(fetcher, *args, **kwargs)
        except BaseException as error:
            undress(error)
            raise
        if not making.off:
            try:
                spent, end = _spent(cpu), clock()
                emit(start, end, self.meta | inside().other | spent)
            except Exception as error:
                making.fail(error)
        return batch


class Collate:
    """The collate function of a fetcher, timed."""

    def __init__(self, function: "Any", ident: int) -> None:
        self.function = function
        self.meta = wire.COLLATE | ident << IDENT

    def __call__(self, samples: "Any") -> "Any":
        start = clock()
        try:
            batch = self.function(samples)
        except BaseException as error:
            undress(error)
            raise
        if not making.off:
            try:
                emit(start, clock(), self.meta | inside().other)
            except Exception as error:
                making.fail(error)
        return batch

    def __getattr__(self, name: str) -> "Any":
        return getattr(self.__dict__["function"], name)
