"""accelprof: says whether a training or inference job is input-, memory- or compute-bound.

What a job may call, all of it free when accelprof does not run it:

    with accelprof.phase("augment"): ...    also as a decorator
    accelprof.step()                        a step ends here, and only at such calls
    accelprof.samples(n)                    the samples of this step
    with accelprof.profile("name"): ...     outside a run: records this part as a run of its own
"""

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType, TracebackType
    from typing import Any, Callable, Optional, Type, TypeVar

    Function = TypeVar("Function", bound=Callable[..., Any])

__all__ = ["phase", "profile", "samples", "step"]

_off = False


def _marks() -> "Optional[ModuleType]":
    """The hooks of this process; None outside of a run. They are loaded under a private name."""
    if _off or "_accelprof_hooks" not in sys.modules:
        return None
    known = sys.modules.get("_accelprof_hooks.marks")
    if known is None:
        try:
            from importlib import import_module

            known = import_module("_accelprof_hooks.marks")
        except Exception as error:
            _fail(error)
    return known


def _fail(error: Exception) -> None:
    """A failure of ours ends all this for the process, and is told once."""
    global _off
    _off = True
    facts = sys.modules.get("_accelprof_hooks.facts")
    if facts is not None:
        facts.fact("hook_off", hook="marks", error="{}: {}".format(type(error).__name__, error))


class phase:  # reads as a function
    """Names a part of the job: a context manager and a decorator."""

    def __init__(self, name: str) -> None:
        self.name = str(name)
        self._starts: "list[int]" = []

    def __enter__(self) -> "phase":
        self._starts.append(time.perf_counter_ns())
        return self

    def __exit__(
        self,
        kind: "Optional[Type[BaseException]]",
        error: "Optional[BaseException]",
        traceback: "Optional[TracebackType]",
    ) -> None:
        start = self._starts.pop()
        marks = _marks()
        if marks is not None:
            try:
                marks.phase(self.name, start, kind is not None)
            except Exception as failure:
                _fail(failure)

    def __call__(self, function: "Function") -> "Function":
        import functools

        flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
        if flags & 0x80:  # a coroutine function

            @functools.wraps(function)
            async def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
                with phase(self.name):
                    return await function(*args, **kwargs)
        elif flags & 0x20:  # a generator function

            @functools.wraps(function)
            def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
                with phase(self.name):
                    return (yield from function(*args, **kwargs))
        else:

            @functools.wraps(function)
            def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
                with phase(self.name):
                    return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]


def step() -> None:
    """Marks the end of a step. Once called, steps end there and nowhere else."""
    marks = _marks()
    if marks is not None:
        try:
            marks.step()
        except Exception as error:
            _fail(error)


def samples(count: int) -> None:
    """Says how many samples the step that runs has, where a batch does not tell."""
    marks = _marks()
    if marks is not None:
        try:
            marks.samples(int(count))
        except Exception as error:
            _fail(error)


class profile:
    """Records a part of a program as a run; within a run it names the part, as `phase` does.

    `path` is the folder of the run that was made; None within a run, or when nothing could be
    recorded. One at a time: a profile within another names a part of it.
    """

    _running = False

    def __init__(self, name: str = "part", quiet: bool = False) -> None:
        self.name = str(name)
        self.path: "Optional[str]" = None
        self._quiet = quiet
        self._part: "Any" = None

    def __enter__(self) -> "profile":
        if profile._running or os.environ.get("ACCELPROF_SPOOL"):
            self._part = phase(self.name)
            self._part.__enter__()
            return self
        try:
            from .profiler.inside import Recording
        except ImportError as error:  # only this file came with the job
            sys.stderr.write("accelprof: this part is not recorded ({})\n".format(error))
            return self
        self._part, profile._running = Recording(self.name, quiet=self._quiet), True
        self._part.start()
        return self

    def __exit__(
        self,
        kind: "Optional[Type[BaseException]]",
        error: "Optional[BaseException]",
        traceback: "Optional[TracebackType]",
    ) -> None:
        if isinstance(self._part, phase):
            self._part.__exit__(kind, error, traceback)
        elif self._part is not None:
            profile._running = False
            self._part.stop(failed=kind is not None)
            self.path = str(self._part.folder) if self._part.folder else None


def load_ipython_extension(shell: "Any") -> None:
    """`%load_ext accelprof`: the cell magic `%%accelprof`."""
    from .profiler import notebook

    notebook.load(shell)
