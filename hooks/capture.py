"""Records the operators of a few steps with torch's own C profiler, when the job does not.

Driven by `tick`: the end of a call of the first root (inference), of a step of the first
optimizer, or accelprof.step(), whichever is the best that the job has. A capture runs from one
tick to another and its trace is saved by torch's C++ code; nothing is turned into Python objects
in the job.
"""

import os
import sys
import time
from _thread import get_ident

from . import facts, ring, wire
from .threads import home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

clock = ring.clock
FEWEST_TICKS = 3
SETTLED_NS = 300_000_000  # of ticking before the first capture
SHORT_NS = 20_000_000  # steps shorter than this are captured several at a time
MOST_STEPS = 4
LONGEST_NS = 30_000_000_000  # a step that is not captured unasked: its trace would be huge
AGAIN_NS = 600_000_000_000  # between two captures unasked
PACE_NS = 60_000_000_000  # between two looks at the pace after that
LOOK_NS = 250_000_000  # between two looks for a request, once there is nothing else to do
REGIME = 2.0  # times slower or faster than what was captured
RECENT = 15  # ticks
CALL, STEP, MARK = range(3)  # where ticks come from; a better source takes over


class Capture:
    """The state of a process's captures. All of it belongs to the thread that ticks first."""

    def __init__(self, mode: str) -> None:
        self.auto = mode == "auto"
        self.at_tick = int(mode) if mode.isdigit() else 0
        self.thread = 0
        self.source = CALL
        self.ticks = 0
        self.aside = False  # the job has a profiler of its own
        self.first = self.before = self.last = 0
        self.recent: "list[int]" = []
        self.asked = 0  # the control word that was last looked at
        self.left = 0  # ticks to the end of the capture that runs
        self.steps = 0
        self.started = 0
        self.captures = 0
        self.settled = False  # captured since this source ticks
        self.again_at = 0  # until then there is no capture unasked
        self.captured_step_ns = 0

    def tick(self, source: int, now: int) -> None:
        if source != self.source:
            self.abandon()
            self.source, self.ticks, self.settled, self.again_at = source, 0, False, 0
            self.recent.clear()
        if self.ticks == 0:
            self.thread, self.first, self.last = get_ident(), now, now
        elif get_ident() != self.thread:
            return
        self.ticks += 1
        self.recent.append(now - self.last)
        del self.recent[:-RECENT]
        self.before, self.last = self.last, now
        if self.left:
            self.left -= 1
            if self.left == 0:
                self.finish()
            return
        word = ring.control()
        if word != self.asked:
            self.asked = word
            self.start(max(1, word & 0xFF))
        elif self.ticks == self.at_tick:
            self.start(1)
        elif self.auto and now >= self.again_at:
            self.consider(now)

    def due(self, now: int) -> int:
        """The time before which no tick is of use: there is nothing to run or to decide."""
        decides = self.ticks < self.at_tick or (self.auto and now >= self.again_at)
        if self.left or (decides and not self.aside):
            return 0
        self.recent.clear()  # the ticks that come are no neighbours
        return now + LOOK_NS

    def consider(self, now: int) -> None:
        """Starts a capture when the job is steady, and again when its pace has changed."""
        if self.ticks <= FEWEST_TICKS or now - self.first < SETTLED_NS:
            return
        if self.settled and len(self.recent) < RECENT:
            return
        typical = sorted(self.recent)[len(self.recent) // 2]
        if now - self.before > REGIME * typical and self.ticks < 50:
            return  # the last step was an odd one
        if self.settled:
            change = typical / max(1, self.captured_step_ns)
            if 1 / REGIME <= change <= REGIME:
                self.again_at = now + PACE_NS
                return
        if typical > LONGEST_NS:
            self.auto = False
            facts.fact(wire.FACT_NOTE, text="no capture: a step takes longer than 30 s")
            return
        self.start(1 if typical >= SHORT_NS else min(MOST_STEPS, 1 + SHORT_NS // max(1, typical)))
        self.captured_step_ns = typical

    def start(self, steps: int) -> None:
        if self.aside or os.getpid() != _process:
            return
        start = clock()
        reason = _begin()
        if reason is not None:
            self.auto = False
            facts.fact(wire.FACT_NOTE, text=f"no capture: {reason}")
            return
        self.steps = self.left = steps
        self.started = start
        # Of no length: the steps from here on are known as captured while they are told
        ring.emit(start, start, ring.meta(wire.CAPTURE))

    def finish(self) -> None:
        """Ends the capture and saves it."""
        end = clock()
        self.captures += 1
        self.again_at, self.settled = end + AGAIN_NS, True
        name = f"{facts.process}.capture{self.captures}.json"
        result = _end()
        path = f"{facts.spool}/{name}"
        result.save(path + ".part")
        os.chmod(path + ".part", 0o600)
        os.rename(path + ".part", path)
        offset = time.time_ns() - clock()
        facts.fact(
            wire.FACT_CAPTURE,
            file=name,
            start_ns=self.started + offset,
            end_ns=end + offset,
            steps=self.steps,
        )
        _tell_allocator()
        from . import tracers
        from .frameworks import libraries

        libraries.tell()
        tracers.tell()
        ring.emit(self.started, clock(), ring.meta(wire.CAPTURE, 0, self.steps))

    def abandon(self) -> None:
        """Ends the capture that runs, if any, without a trace."""
        if self.left:
            self.left = 0
            _end()
            ring.emit(self.started, clock(), ring.meta(wire.CAPTURE))


_process = os.getpid()
_state = Capture(os.environ.get(wire.ENV_CAPTURE, "auto"))


def tick(source: int, now: int) -> None:
    """A step ended at `now`, as one of CALL, STEP and MARK sees it. Never raises."""
    try:
        if source >= _state.source:
            _state.tick(source, now)
            home.due = _state.due(now)
    except Exception as error:
        _off(error)


def stand_aside() -> None:
    """The job makes a profiler of its own: no capture from here on. Never raises."""
    if _state.aside:
        return
    _state.aside = True
    try:
        _state.abandon()
        facts.fact(wire.FACT_NOTE, text="no further capture: the job uses a profiler of its own")
    except Exception as error:
        _off(error)


def rest() -> None:
    """The recording ends, and the program goes on: no capture until `wake`. Never raises.

    One that runs ends here, for at the program's end nobody would know of it, and torch crashes.
    """
    try:
        if get_ident() == _state.thread:
            _state.abandon()
        _state.aside = True
    except Exception as error:
        _off(error)


def wake() -> None:
    """Another recording of this process begins."""
    global _state
    if not _state.left:
        _state = Capture("auto")


def abandon() -> None:
    """Before a fork and at exit. Never raises."""
    try:
        if os.getpid() == _process:
            _state.abandon()
    except Exception as error:
        _off(error)


def _off(error: Exception) -> None:
    if not (_state.aside and _state.left == 0):
        _state.aside, _state.left = True, 0
        told = f"{type(error).__name__}: {error}"[:300]
        facts.fact(wire.FACT_HOOK_OFF, hook="capture", error=told)


# -- torch's profiler in C ---------------------------------------------------------------------


def _begin() -> "str | None":
    """Starts the profiler; returns why not."""
    torch: "Any" = sys.modules["torch"]
    autograd, profiler = torch._C._autograd, torch.autograd.profiler
    if autograd._profiler_enabled():
        return "a profiler is active"
    activities = {torch._C._profiler.ProfilerActivity.CPU}
    if torch.cuda.is_initialized():
        if torch.cuda.is_current_stream_capturing():
            return "a CUDA graph is being captured"
        if "CUDA_INJECTION64_PATH" not in os.environ:  # else Nsight or the like has the device
            activities.add(torch._C._profiler.ProfilerActivity.CUDA)
    config = profiler.ProfilerConfig(
        profiler.ProfilerState.KINETO,
        True,  # record_shapes
        False,  # profile_memory
        False,  # with_stack
        False,  # with_flops
        False,  # with_modules
        torch._C._profiler._ExperimentalConfig(),
        *([f"{os.getpid():032X}"] if _takes_trace_id(profiler) else []),
    )
    # Read once, when the profiler's library starts: without it there are lines on stderr. Set in
    # the C environment alone and for this moment: the job never sees it.
    quiet = "KINETO_LOG_LEVEL" not in os.environ
    if quiet:
        os.putenv("KINETO_LOG_LEVEL", "6")
    try:
        autograd._prepare_profiler(config, activities)
        autograd._enable_profiler(config, activities)
    finally:
        if quiet:
            os.unsetenv("KINETO_LOG_LEVEL")
    return None


def _tell_allocator() -> None:
    """What the CUDA allocator counts; reading it waits for nothing."""
    cuda = sys.modules["torch"].cuda
    if not cuda.is_initialized():
        return
    counts = cuda.memory_stats()
    facts.fact(
        wire.FACT_ALLOCATOR,
        reserved=counts.get("reserved_bytes.all.current"),
        allocated=counts.get("allocated_bytes.all.current"),
        inactive_split=counts.get("inactive_split_bytes.all.current"),
        retries=counts.get("num_alloc_retries"),
    )


def _takes_trace_id(profiler: "Any") -> bool:
    """Torch 2.4 and later name each trace."""
    return "trace_id" in (profiler.ProfilerConfig.__init__.__doc__ or "") or hasattr(
        profiler.profile, "create_trace_id"
    )


def _end() -> "Any":
    return sys.modules["torch"]._C._autograd._disable_profiler()
