"""What single views show beyond the overview, one file a view; read only while the view is seen."""

from __future__ import annotations

from collections.abc import Callable

from ..model import Detail
from . import devices, loading, log, roofline, steps
from .moment import Moment

# By the name of the view that shows it
DETAILS: dict[str, Callable[[Moment], Detail]] = {
    "devices": devices.read,
    "steps": steps.read,
    "input": loading.read,
    "roofline": roofline.read,
    "log": log.read,
}

__all__ = ["DETAILS", "Moment"]
