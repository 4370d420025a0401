"""The newest request wins, and nothing waits for a query that hangs."""

from __future__ import annotations

import queue
import threading
import time

from accelprof.tui.poller import Poller


def test_the_newest_request_wins() -> None:
    begun, goes_on = threading.Event(), threading.Event()
    made: queue.Queue[int] = queue.Queue()

    def make(wanted: int) -> int:
        begun.set()
        goes_on.wait(10)
        return wanted

    poller: Poller[int, int] = Poller(make, made.put)
    poller.request(1)
    begun.wait(10)
    for wanted in (2, 3, 4):
        poller.request(wanted)
    goes_on.set()
    assert [made.get(timeout=10), made.get(timeout=10)] == [1, 4]
    poller.close()
    assert made.empty()


def test_close_releases_and_delivers_no_more() -> None:
    released = threading.Event()
    made: queue.Queue[int] = queue.Queue()
    poller: Poller[int, int] = Poller(lambda wanted: wanted, made.put, released.set)
    poller.close()
    assert released.is_set()
    poller.request(1)
    assert made.empty()


def test_close_does_not_wait_for_a_query_that_hangs() -> None:
    begun, never = threading.Event(), threading.Event()

    def hang(_: int) -> int:
        begun.set()
        never.wait(30)
        return 0

    poller: Poller[int, int] = Poller(hang, lambda _: None)
    poller.request(1)
    begun.wait(10)
    before = time.monotonic()
    poller.close(timeout_s=0.1)
    assert time.monotonic() - before < 5
    never.set()
