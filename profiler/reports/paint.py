"""Colour by SGR sequences, and whether a stream wants it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TextIO

from . import phases


class Paint:
    """Colours text, or leaves it alone."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.on and text else text

    def share(self, text: str, name: str) -> str:
        """In the colour of a share of time."""
        return self(text, f"38;5;{phases.LOOKS[name].ansi}")

    def chip(self, text: str, name: str) -> str:
        """Black on the share's colour: readable on a light and on a dark terminal."""
        return self(text, f"1;30;48;5;{phases.LOOKS[name].ansi}")

    def bold(self, text: str) -> str:
        return self(text, "1")

    def dim(self, text: str) -> str:
        return self(text, "2")


def wants_colour(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Colour goes to terminals only, and never where NO_COLOR is set."""
    if environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return False
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False
