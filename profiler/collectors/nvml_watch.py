"""Calls into a driver that may hang.

A hung NVML call cannot be cancelled: its thread stays inside until the driver returns, maybe never.
So the calls of a pass run on a thread of their own. One that outlasts the deadline is left behind
with that thread, a new thread goes on with the rest of the pass, and the call is not made again
until the old one has returned. All threads are daemons: none of them delays the exit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_STUCK = 3  # so many calls inside at once: the driver as a whole hangs, leave it alone


@dataclass(slots=True, eq=False)
class Job:
    """One call: `make()` runs on the watched thread, `accept(result)` takes what it gave."""

    key: Hashable
    make: Callable[[], Any]
    accept: Callable[[Any], None]


@dataclass(slots=True, eq=False)
class _Worker:
    """A thread and where it is. `jobs` is None while it waits for work."""

    jobs: Sequence[Job] | None = None
    position: int = 0
    entered: float = 0.0  # monotonic s, of the call it is in
    left_behind: bool = False
    gone: bool = False
    wake: threading.Event = field(default_factory=threading.Event)


class Watch:
    """Runs passes of jobs, one pass at a time. Use from one thread."""

    def __init__(self, name: str, deadline_s: float = 0.5) -> None:
        self.name = name
        self.deadline_s = deadline_s
        self.stuck: dict[Hashable, float] = {}  # key: monotonic s since when
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._worker: _Worker | None = None
        self._closed = False

    @property
    def hangs(self) -> bool:
        """So many calls are stuck that no further one is made."""
        return len(self.stuck) >= MOST_STUCK

    def run(
        self, jobs: Sequence[Job], hung: Callable[[Job], None], deadline_s: float | None = None
    ) -> None:
        """Makes the calls in order; `hung(job)` for those that hang now or still do from before."""
        limit = self.deadline_s if deadline_s is None else deadline_s
        stuck = set(self.stuck)  # a call may return at any moment
        todo = [job for job in jobs if job.key not in stuck] if stuck else jobs
        for job in jobs if stuck else ():
            if job.key in stuck:
                hung(job)
        start = 0
        while start < len(todo):
            if self.hangs:
                for job in todo[start:]:
                    hung(job)
                return
            worker = self._hand_over(todo, start)
            left = self._await(worker, limit)
            if left is None:
                return
            hung(todo[left])
            start = left + 1

    def close(self) -> bool:
        """Lets the thread go. True when no call is inside the driver."""
        with self._lock:
            self._closed = True
            free = not self.stuck and (self._worker is None or self._worker.jobs is None)
            if self._worker:
                self._worker.wake.set()
        return free

    def _hand_over(self, jobs: Sequence[Job], start: int) -> _Worker:
        worker = self._worker
        if worker is None:
            worker = self._worker = _Worker()
            serve = threading.Thread(target=self._serve, args=(worker,), name=self.name)
            serve.daemon = True
            serve.start()
        self._done.clear()
        worker.position = start
        worker.entered = time.monotonic()
        worker.jobs = jobs
        worker.wake.set()
        return worker

    def _await(self, worker: _Worker, limit: float) -> int | None:
        """None when the pass is done, else the position of the call that was left behind."""
        while True:
            wait = worker.entered + limit - time.monotonic()
            if self._done.wait(max(wait, 0.001)):
                return None
            with self._lock:
                if self._done.is_set():
                    return None
                if time.monotonic() - worker.entered < limit or worker.jobs is None:
                    continue
                worker.left_behind = True
                self._worker = None
                self.stuck[worker.jobs[worker.position].key] = worker.entered
                return worker.position

    def _serve(self, worker: _Worker) -> None:
        while True:
            worker.wake.wait()
            worker.wake.clear()
            if self._closed:
                return
            if not self._pass(worker):
                return
            worker.jobs = None
            self._done.set()

    def _pass(self, worker: _Worker) -> bool:
        """Works through the jobs; False when it was left behind on the way."""
        jobs = worker.jobs or ()
        while worker.position < len(jobs):
            job = jobs[worker.position]
            worker.entered = time.monotonic()
            result = job.make()
            # The lock decides which of the two came first, the deadline or the answer.
            with self._lock:
                if worker.left_behind:
                    self.stuck.pop(job.key, None)
                    return False
                job.accept(result)
                worker.position += 1
                worker.entered = time.monotonic()
        return True
