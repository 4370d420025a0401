"""The run's clock: UTC nanoseconds that never jump, made from the monotonic clock.

The mapping is anchored once. When the wall clock is set, or the machine was suspended, times in
the run keep their distances and only `check` tells of it. On Linux `perf_counter_ns` is
CLOCK_MONOTONIC, the same in all processes of a host, so spans of the job and samples of the
profiler share the axis.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

JUMP_NS = 1_000_000_000  # smaller steps are NTP at work


def _boottime_ns() -> int:
    """Monotonic time that goes on while the machine sleeps."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@dataclass(frozen=True)
class ClockJump:
    """The wall clock moved against the run's clock by `by_ns`."""

    t_ns: int
    by_ns: int
    cause: Literal["suspend", "set"]


class Clock:
    """`now_ns()` for every row of the run. All three sources can be given by a test."""

    def __init__(
        self,
        monotonic_ns: Callable[[], int] = time.perf_counter_ns,
        wall_ns: Callable[[], int] = time.time_ns,
        boot_ns: Callable[[], int] = _boottime_ns,
    ) -> None:
        self._monotonic_ns = monotonic_ns
        self._wall_ns = wall_ns
        self._boot_ns = boot_ns
        self.offset_ns = self._measure()  # wall minus monotonic at the anchor
        self._known_ns = self.offset_ns  # what `check` compares with
        self._asleep_ns = boot_ns() - monotonic_ns()

    def now_ns(self) -> int:
        """UTC ns on the run's axis."""
        return self._monotonic_ns() + self.offset_ns

    def to_utc_ns(self, monotonic_ns: int) -> int:
        return monotonic_ns + self.offset_ns

    def check(self) -> ClockJump | None:
        """A jump since the last call, once; call it every second or so."""
        offset = self._measure()
        by = offset - self._known_ns
        asleep = self._boot_ns() - self._monotonic_ns()
        slept = asleep - self._asleep_ns
        self._asleep_ns = asleep
        if abs(by) < JUMP_NS:
            return None
        self._known_ns = offset
        cause: Literal["suspend", "set"] = "suspend" if slept * 2 > abs(by) else "set"
        return ClockJump(self.now_ns(), by, cause)

    def align(self, offset_ns: int) -> int:
        """The offset to use for a process that measured `offset_ns` itself.

        One that started after a jump gets the run's anchor. One whose monotonic clock is another
        (a time namespace) keeps its own.
        """
        return self.offset_ns if abs(offset_ns - self._measure()) < JUMP_NS else offset_ns

    def _measure(self) -> int:
        """Wall minus monotonic, from the tightest of a few readings."""
        best, spread = 0, -1
        for _ in range(5):
            before = self._monotonic_ns()
            wall = self._wall_ns()
            after = self._monotonic_ns()
            if spread < 0 or after - before < spread:
                best, spread = wall - (before + after) // 2, after - before
        return best
