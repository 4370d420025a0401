"""Device time of spans without waiting for the device: pairs of timed events around them.

An event goes into the device's queue where a span begins and where it ends; the time between them
is read once the device has passed both, at the end of a later span. In a wait for data nothing is
queued between the two, so what lies between them is the device's idle time.

The timer is made when a root or an optimizer turns out to have parameters on a device, so a job on
the CPU never gets one. Its cost is kept to one in SHARE of the time: of quick steps some are timed.
"""

import sys
from collections import deque

from . import wire
from .patching import Hook
from .ring import clock, emit
from .threads import home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BACKENDS = ("cuda", "xpu", "mps")
MARK_NS, SHARE = 3_000, 500  # what an event is taken to cost
MOST = 256  # spans that the device has not passed yet; a job that never waits queues no more

hook = Hook("device time")


class Timer:
    """Times spans of the home thread on one backend: torch.cuda and those shaped like it."""

    def __init__(self, backend: "Any") -> None:
        self.new = backend.Event
        self.capturing = getattr(backend, "is_current_stream_capturing", None)
        self.stream = getattr(backend, "current_stream", None)
        self.main = self.stream() if self.stream is not None else None
        self.paused = False  # a graph is being captured: the device must not be asked anything
        self.pool: "list[Any]" = []
        self.pending: "deque[tuple[int, int, Any, Any]]" = deque()
        self.began, self.marks = clock(), 0

    def mark(self) -> "Any":
        """An event at this place of the queue; None where there can be none. Never raises."""
        try:
            if self.paused or len(self.pending) >= MOST:
                return None
            if self.capturing is not None and self.capturing():
                return None
            self.marks += 1
            event = self.pool.pop() if self.pool else self.new(enable_timing=True)
            event.record()
            return event
        except Exception as error:
            stop(error)
            return None

    def done(self, kind: int, start: int, first: "Any") -> None:
        """A span of `kind` that began at `start` (clock), where `first` was marked, is over."""
        try:
            last = self.mark()
            if last is None:
                self.pool.append(first)
            else:
                self.pending.append((kind, start, first, last))
            if not self.paused:
                self.read()
        except Exception as error:
            stop(error)

    def read(self) -> None:
        """Tells of the spans that the device has passed."""
        pending = self.pending
        while pending and pending[0][3].query():
            kind, start, first, last = pending.popleft()
            length = max(0, int(first.elapsed_time(last) * 1e6))
            emit(start, start + length, wire.DEVICE | kind << wire.IDENT_SHIFT)
            self.pool += (first, last)

    def stepped(self, now: int) -> None:
        """A step is over: whether the next one is timed, too."""
        home.timer = self if self.marks * MARK_NS * SHARE <= now - self.began else None

    def on_main(self) -> bool:
        """Whether this is the queue in which the model runs."""
        return self.stream is None or self.stream() == self.main


def begin(kind: str) -> None:
    """Parameters of the job lie on a device of this kind: its backend is in use already."""
    if kind not in BACKENDS or home.device is not None or hook.off:
        return
    try:
        backend = getattr(sys.modules["torch"], kind)
        if hasattr(backend, "Event"):
            home.device = home.timer = Timer(backend)
    except Exception as error:
        stop(error)


def stop(error: Exception) -> None:
    home.device = home.timer = None
    hook.fail(error)
