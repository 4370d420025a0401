"""What each thread is inside of: spans of one kind never nest.

The thread that imported torch has an object of its own, `home`: after a step's worth of other code,
the dictionaries behind a thread-local one cost 2 us a hook to bring back into the cache.
"""

from _thread import _local, get_ident

from .wire import F_OTHER_THREAD, FLAG_SHIFT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Inside:
    """Of one thread; the last six only in `home`, which every hook has at hand anyway."""

    __slots__ = (
        "backward", "collective", "data", "device", "due", "forward", "late", "logging", "news",
        "other", "saving", "stepping", "syncing", "thread", "timer", "uncalled",
    )  # fmt: skip

    def __init__(self, other: int) -> None:
        self.thread = get_ident()
        self.other = other  # goes into the meta word of every record
        self.data = self.forward = self.backward = self.stepping = False
        self.saving = self.syncing = self.logging = self.collective = False
        self.late = 0  # a record that ends then or later is written, and all before it
        self.due = 0  # ticks of the capture before this time need not be told
        self.news = False  # a root may come up that is not known yet, or not told yet
        self.device: "Any" = None  # devices.Timer of a job that has a device,
        self.timer: "Any" = None  # and the same while spans are timed
        self.uncalled = 0  # optimizer steps since a known root was called


class _Others(_local):
    def __init__(self) -> None:
        self.inside = Inside(F_OTHER_THREAD << FLAG_SHIFT)


home, _others = Inside(0), _Others()  # `home` is one object for good: hooks import it by name


def inside() -> Inside:
    """The state of the calling thread."""
    return home if home.thread == get_ident() else _others.inside


def reset() -> None:
    """In a forked child: the thread that forked is the main one."""
    here = inside()
    if here is not home:
        for name in Inside.__slots__:
            setattr(home, name, getattr(here, name))
        home.other = 0
    home.device = home.timer = None  # no device works in a forked child
