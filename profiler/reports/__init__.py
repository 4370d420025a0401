"""Every output of a report. A format is a function from a Report to text, listed in FORMATS."""

from __future__ import annotations

from collections.abc import Callable

from ..report import Report
from . import html, json_, markdown, text

FORMATS: dict[str, Callable[[Report], str]] = {
    "md": markdown.render,
    "json": json_.render,
    "txt": text.render,
    "html": html.render,
}
