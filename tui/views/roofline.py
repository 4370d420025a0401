"""The captured operators as points under this machine's ceilings."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult

from ...profiler.reports import figures
from ...profiler.reports.plain import clean
from ...profiler.series import OpPoint
from .. import draw, plot
from ..model import RoofView, Snapshot
from ..widgets.panel import Panel
from ..widgets.rows import Rows
from .view import View

_HEAD = ("", "TIME", "LIMIT", "OPERATOR", "RATE", "FLOP/B", "CALLS", "PHASE")
_RIGHT = (1, 4, 5, 6)
_GIVES_WAY = (7, 6)


class RooflineView(View):
    """The chart above, the operators below it."""

    NAME = "roofline"
    DEFAULT_CSS = """
    RooflineView RoofChart { height: 3fr; }
    RooflineView Rows { height: 2fr; }
    """

    def compose(self) -> ComposeResult:
        yield RoofChart()
        yield Rows(_HEAD, _RIGHT, _GIVES_WAY, chooses=False, empty="no operators", id="op-rows")

    def show(self, snapshot: Snapshot) -> None:
        self.query_one(RoofChart).show(snapshot)
        found = snapshot.details.get("roofline")
        if isinstance(found, RoofView):
            rows = [_row(at, op) for at, op in enumerate(found.ops)]
            self.query_one(Rows).fill(rows, "operators, by time")


def _row(at: int, op: OpPoint) -> tuple[str | Text, ...]:
    letter = plot.LETTERS[at] if at < len(plot.LETTERS) else "·"
    name = clean(op.name, 40) + (f" {clean(op.dtype, 12)}" if op.dtype else "")
    return (
        Text(letter, plot.BOUND[op.bound]), figures.share(op.share),
        Text(op.bound, plot.BOUND[op.bound]), name, figures.arithmetic(op.flops_per_s),
        figures.number(op.intensity), figures.count(op.calls), op.phase,
    )  # fmt: skip


class RoofChart(Panel[Snapshot]):
    """FLOP/s over FLOPs a byte."""

    TITLE = "roofline"

    def title(self, snapshot: Snapshot) -> str:
        found = snapshot.details.get("roofline")
        if not isinstance(found, RoofView) or found.roof is None:
            return self.TITLE
        roof = found.roof
        memory = figures.bandwidth(roof.bytes_per_s)
        return f"roofline: memory {memory}, ceilings {clean(roof.source, 40)}"

    def draw(self, snapshot: Snapshot, width: int, height: int) -> list[Text]:
        found = snapshot.details.get("roofline")
        if not isinstance(found, RoofView):
            return [Text("…", draw.QUIET)]
        note = [] if found.ops else draw.notes(_note(found, snapshot), width)
        if found.roof is None:
            return note or draw.notes(_UNKNOWN, width)
        return [*plot.roofline(found.ops, found.roof, width, height - len(note)), *note]


_UNKNOWN = "this machine's ceilings are not known: `accelprof calibrate` measures them"


def _note(found: RoofView, snapshot: Snapshot) -> str:
    """Why there is no operator yet, and when there will be some."""
    if not snapshot.live:
        without = "no operator with known FLOPs and bytes was captured in this run"
        return without if found.roof else f"{without}; {_UNKNOWN}"
    made = len(found.captures)
    if made:
        steps = figures.count(sum(found.captures), "step")
        so_far = f"{steps} captured so far; the operators appear here when the job has ended"
    else:
        so_far = "operators appear here when the job has ended; no step is captured so far"
    return so_far if found.roof else f"{so_far}. Ceilings: calibrated at the end, too, if need be"
