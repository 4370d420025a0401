"""The run's clock against suspends and clocks that are set."""

from __future__ import annotations

from accelprof.profiler.clock import Clock

S = 1_000_000_000


class Times:
    def __init__(self) -> None:
        self.monotonic = 5 * S
        self.wall = 1_700_000_000 * S
        self.boot = 5 * S

    def run(self, ns: int) -> None:
        self.monotonic += ns
        self.wall += ns
        self.boot += ns

    def clock(self) -> Clock:
        return Clock(lambda: self.monotonic, lambda: self.wall, lambda: self.boot)


def test_maps_to_utc():
    times = Times()
    clock = times.clock()
    assert clock.now_ns() == times.wall
    times.run(10 * S)
    assert clock.now_ns() == times.wall
    assert clock.to_utc_ns(5 * S) == 1_700_000_000 * S
    assert clock.check() is None


def test_a_clock_that_is_set_moves_nothing():
    times = Times()
    clock = times.clock()
    times.wall -= 3600 * S
    before = clock.now_ns()
    jump = clock.check()
    assert (jump.by_ns, jump.cause) == (-3600 * S, "set")
    assert clock.now_ns() == before
    assert clock.check() is None  # told once


def test_suspend():
    times = Times()
    clock = times.clock()
    times.wall += 600 * S
    times.boot += 600 * S
    jump = clock.check()
    assert (jump.by_ns, jump.cause) == (600 * S, "suspend")


def test_small_steps_are_ntp():
    times = Times()
    clock = times.clock()
    times.wall += S // 2
    assert clock.check() is None


def test_processes_share_the_axis():
    times = Times()
    clock = times.clock()
    at_start = times.wall - times.monotonic
    assert clock.align(at_start + 1000) == clock.offset_ns
    times.wall += 3600 * S
    after_jump = times.wall - times.monotonic
    assert clock.align(after_jump) == clock.offset_ns
    assert clock.align(at_start) == at_start  # started before: it has the anchor already
    other_namespace = at_start + 12345 * S
    assert clock.align(other_namespace) == other_namespace


def test_real_clock():
    clock = Clock()
    assert abs(clock.now_ns() - __import__("time").time_ns()) < S
