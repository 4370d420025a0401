"""Every output of a report. A format is a function from a Report to text, listed in FORMATS."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from ..report import Report

Render = Callable[[Report], str]


def _from(module: str) -> Render:
    """Its module's `render`, imported when the format is asked for: most commands need none."""

    def render(report: Report) -> str:
        made: str = import_module(f".{module}", __package__).render(report)
        return made

    return render


FORMATS: dict[str, Render] = {
    "md": _from("markdown"),
    "json": _from("json_"),
    "txt": _from("text"),
    "html": _from("html"),
}
