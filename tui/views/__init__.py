"""The views of a run, in the order of their keys."""

from __future__ import annotations

from .devices import DevicesView
from .findings import FindingsView
from .host import HostView
from .input import InputView
from .log import LogView
from .overview import OverviewView
from .ranks import RanksView
from .roofline import RooflineView
from .steps import StepsView
from .view import View

VIEWS: tuple[type[View], ...] = (
    OverviewView, DevicesView, StepsView, InputView, RooflineView,
    RanksView, HostView, FindingsView, LogView,
)  # fmt: skip

__all__ = ["VIEWS", "View"]
