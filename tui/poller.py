"""One background thread that makes snapshots, so that the screen never waits for a query.

The newest request wins: a cursor that moves ten times while one query runs costs one more query.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Request = TypeVar("Request")
Result = TypeVar("Result")


class Poller(Generic[Request, Result]):
    """Calls `make` for the newest request, then `deliver`, both on its own thread."""

    def __init__(
        self, make: Callable[[Request], Result], deliver: Callable[[Result], object],
        release: Callable[[], object] = lambda: None,
    ) -> None:  # fmt: skip
        self._make = make
        self._deliver = deliver
        self._release = release
        self._wanted: list[Request] = []
        self._closed = False
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="poller", daemon=True)
        self._thread.start()

    def request(self, wanted: Request) -> None:
        """Asks for a snapshot; takes the place of a request not begun yet."""
        with self._wake:
            self._wanted = [wanted]
            self._wake.notify()

    def close(self, timeout_s: float = 1.0) -> None:
        """Ends the thread; a query that hangs is left behind."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while (wanted := self._next()) is not None:
                result = self._make(wanted[0])
                if not self._closed:
                    self._deliver(result)
        finally:
            self._release()

    def _next(self) -> list[Request] | None:
        with self._wake:
            self._wake.wait_for(lambda: self._closed or bool(self._wanted))
            wanted, self._wanted = self._wanted, []
            return None if self._closed else wanted
