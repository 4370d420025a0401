"""The captured operators under the machine's ceilings."""

from __future__ import annotations

from ...profiler.exports import series
from ..model import RoofView
from .moment import Moment


def read(moment: Moment) -> RoofView:
    """As the HTML report has them."""
    return RoofView(*series.operators(moment.reader, moment.view))
