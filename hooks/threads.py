"""What each thread is inside of: spans of one kind never nest.

The thread that imported torch has a plain object of its own: after a step's worth of other code,
the dictionaries behind a thread-local one cost 2 µs a hook to bring back into the cache.
"""

from _thread import _local, get_ident

from .wire import F_OTHER_THREAD, FLAG_SHIFT


class Inside:
    """Of one thread."""

    __slots__ = (
        "backward", "collective", "data", "forward", "logging", "other", "saving", "stepping",
        "syncing",
    )  # fmt: skip

    def __init__(self, other: int) -> None:
        self.other = other  # goes into the meta word of every record
        self.data = self.forward = self.backward = self.stepping = False
        self.saving = self.syncing = self.logging = self.collective = False


class _Others(_local):
    def __init__(self) -> None:
        self.inside = Inside(F_OTHER_THREAD << FLAG_SHIFT)


_home, _here, _others = get_ident(), Inside(0), _Others()


def inside() -> Inside:
    """The state of the calling thread."""
    return _here if get_ident() == _home else _others.inside


def reset() -> None:
    """In a forked child: the thread that forked is the main one."""
    global _home, _here
    _here = inside()
    _here.other = 0
    _home = get_ident()
