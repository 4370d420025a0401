"""Lets the profiler read this process's stacks where Yama lets only ancestors do so (scope 1)."""

import os
import sys

from . import facts, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
PR_SET_PTRACER = 0x59616D61

_tracer = 0  # who was let in


def allow(scope: str = SCOPE, prctl: "Callable[..., Any] | None" = None) -> None:
    """Names the launcher, whose descendants the profilers are. After torch: it brings ctypes."""
    global _tracer
    try:
        if _read(scope) != "1":
            return
        pid = int(_read(f"{facts.spool}/{wire.TRACER}"))
        if pid > 1:
            (prctl or _prctl())(PR_SET_PTRACER, pid, 0, 0, 0)
            _tracer = pid
    except (OSError, ValueError):
        pass  # no Yama, no launcher
    except Exception as error:
        facts.fact(wire.FACT_HOOK_OFF, hook="tracer", error=f"{type(error).__name__}: {error}")


def after_fork(prctl: "Callable[..., Any] | None" = None) -> None:
    """A forked child does not inherit it. Never raises."""
    if _tracer:
        try:
            (prctl or _prctl())(PR_SET_PTRACER, _tracer, 0, 0, 0)
        except Exception:
            pass


def _prctl() -> "Any":
    ctypes: "Any" = sys.modules["ctypes"]
    call = ctypes.CDLL(None).prctl
    call.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    return call


def _read(path: str) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 32).decode().strip()
    finally:
        os.close(fd)
