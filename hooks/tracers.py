"""Debuggers, coverage and profilers of the job that run code of theirs at each of its lines."""

import sys

from . import facts, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def tell() -> None:
    """Names what is set on this thread."""
    names = [_name(f) for f in (sys.gettrace(), sys.getprofile()) if f is not None]
    monitoring: "Any" = getattr(sys, "monitoring", None)
    if monitoring is not None:
        tools = [monitoring.get_tool(number) for number in range(6)]
        names += [str(name) for name in tools if name is not None]
    if names:
        facts.fact(wire.FACT_TRACED, by=names[:8])


def _name(function: "Any") -> str:
    """The package of a trace function: pydevd, coverage, cProfile, ..."""
    module = getattr(function, "__module__", None) or type(function).__module__
    return str(module).partition(".")[0]
