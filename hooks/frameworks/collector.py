"""Pauses of the garbage collector."""

from .. import ring, wire
from ..threads import inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SHORTEST_NS = 100_000  # young generations take a few µs, thousands of times
_start = 0


def install(module: "Any") -> None:
    """gc"""
    module.callbacks.append(_collected)


def _collected(phase: str, info: "dict[str, int]") -> None:
    global _start
    now = ring.clock()
    if phase == "start":
        _start = now
    elif _start and now - _start >= SHORTEST_NS and ring.is_open():
        try:
            ring.emit(_start, now, ring.meta(wire.GC, info["generation"]) | inside().other)
        except Exception:
            _start = 0
