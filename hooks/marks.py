"""Behind accelprof.phase, step and samples: what the job itself says."""

import sys

from . import ring, wire
from .facts import fact
from .threads import inside

_phases: "dict[str, int]" = {}


def phase(name: str, start: int, raised: bool) -> None:
    """A phase that began at `start` is over."""
    ident = _phases.get(name)
    if ident is None:
        ident = _phases[name] = min(len(_phases) + 1, wire.IDENT_MAX)
        fact(wire.FACT_PHASE, id=ident, name=name[:200])
    flags = wire.F_RAISED if raised else 0
    ring.emit(start, ring.clock(), ring.meta(wire.PHASE, ident, flags=flags) | inside().other)


def step() -> None:
    """A step ends here."""
    now = ring.clock()
    ring.emit(now, now, wire.STEP_MARK | inside().other)
    capture = sys.modules.get("_accelprof_hooks.capture")
    if capture is not None:
        capture.tick(capture.MARK, now)


def samples(count: int) -> None:
    """The step that runs has this many samples."""
    now = ring.clock()
    ring.emit(now, now, ring.meta(wire.SAMPLES, 0, count) | inside().other)
