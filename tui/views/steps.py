"""Steps one by one: which are far longer than usual, and what one is made of."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.reactive import reactive

from ...profiler.reports import figures
from .. import draw
from ..model import Snapshot, StepRow
from ..model import StepsView as Steps
from ..widgets.panel import Panel
from ..widgets.rows import Rows
from ..widgets.steps import StepChart
from .view import View

_HEAD = ("STEP", "AT", "TIME", "USUAL", "MOSTLY")
_RIGHT = (0, 1, 2, 3)
_GIVES_WAY = (1, 3)
# The share of wall time that a phase is counted under, for its colour
SHARE_OF = {
    "wait for data": "input", "loader start": "input", "copy to device": "transfer",
    "forward": "compute", "backward": "compute", "optimizer": "memory",
    "collectives": "communication", "checkpoint": "checkpoint", "logging": "logging",
    "evaluation": "evaluation",
}  # fmt: skip


_ORDER = "lengths are measured; the order within a step is the usual one"


class StepsView(View):
    """Step times, a list of steps, the waterfall of the chosen one."""

    NAME = "steps"
    BINDINGS = [Binding("o", "other", "longest/newest")]  # noqa: RUF012
    DEFAULT_CSS = """
    StepsView { layout: grid; grid-size: 2; grid-columns: 52 1fr; grid-rows: 6 1fr; }
    StepsView StepChart { column-span: 2; height: 6; }
    StepsView Rows, StepsView Waterfall { height: 100%; }
    """
    outliers: reactive[bool] = reactive(True)

    def __init__(self) -> None:
        super().__init__()
        self._snapshot: Snapshot | None = None

    def compose(self) -> ComposeResult:
        yield StepChart()
        yield Rows(_HEAD, _RIGHT, _GIVES_WAY, empty="no step in this list", id="step-rows")
        yield Waterfall()

    def show(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.query_one(StepChart).show(snapshot)
        found = snapshot.details.get("steps")
        if isinstance(found, Steps):
            shown = self._listed(found)
            title = f"outliers ({len(found.outliers)})" if self.outliers else "newest"
            rows = self.query_one(Rows)
            rows.fill([_row(step, found.usual_ms) for step in shown], title)
            chosen = shown[rows.chosen] if shown else None
            self.query_one(Waterfall).show_step(snapshot, chosen, found)

    def _listed(self, found: Steps) -> Sequence[StepRow]:
        return found.outliers if self.outliers else found.recent

    def on_rows_chosen(self, message: Rows.Chosen) -> None:
        if self._snapshot is not None:
            self.show(self._snapshot)

    def action_other(self) -> None:
        """Lists outliers, or the newest steps."""
        self.outliers = not self.outliers
        self.query_one(Rows).chosen = 0
        if self._snapshot is not None:
            self.show(self._snapshot)


def _row(step: StepRow, usual_ms: float | None) -> tuple[str | Text, ...]:
    name, ms = max(step.phases, key=lambda phase: phase[1] or 0.0)
    times = figures.times(step.ms / usual_ms) if usual_ms else figures.UNKNOWN
    return (
        str(step.step), figures.clock(step.at_s), figures.milliseconds(step.ms), times,
        name if ms else figures.UNKNOWN,
    )  # fmt: skip


class Waterfall(Panel[Snapshot]):
    """The phases of one step, each at its place in the usual order, against their medians."""

    TITLE = "one step"

    def __init__(self) -> None:
        super().__init__()
        self._step: StepRow | None = None
        self._steps = Steps()

    def show_step(self, snapshot: Snapshot, step: StepRow | None, steps: Steps) -> None:
        """Draws this step from now on."""
        self._step, self._steps = step, steps
        self.show(snapshot)

    def title(self, snapshot: Snapshot) -> str:
        if self._step is None:
            return self.TITLE
        return f"step {self._step.step}: {figures.milliseconds(self._step.ms)}"

    def draw(self, snapshot: Snapshot, width: int, height: int) -> list[Text]:
        step = self._step
        if step is None:
            return draw.notes(self._why_none(snapshot), width)
        facts = [f"at {figures.clock(step.at_s)}"]
        facts += [f"{step.samples} samples"] if step.samples is not None else []
        if step.micro_batches and step.micro_batches > 1:
            facts.append(f"{step.micro_batches} micro-batches")
        facts += ["captured: slower by the capture's own cost"] if step.captured else []
        lines = [Text(" · ".join(facts), draw.QUIET), self._head(width)]
        at = 0.0
        for name, ms in step.phases:
            usual = self._steps.usual.get(name)
            if ms is None or (not ms and not usual):
                continue
            share = SHARE_OF.get(name, "other")
            bar = draw.span(at / step.ms, ms / step.ms, self._room(width), share)
            far = usual is not None and ms > 2 * usual and ms > 0.1 * step.ms
            lines.append(_phase(name, bar, ms, usual, draw.ALARM if far else Style.null()))
            at += ms
        unseen = [name for name, ms in step.phases if ms is None]
        if unseen:
            lines += draw.notes(f"not observed: {', '.join(unseen)}", width)
        lines += draw.notes(_ORDER, width)
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return lines

    def _why_none(self, snapshot: Snapshot) -> str:
        if not snapshot.details.get("steps"):
            return "…"
        if not self._steps.recent:
            return "no step has ended yet" if snapshot.live else "no step was seen"
        return "no step is twice as long as the usual one; o lists the newest"

    def _head(self, width: int) -> Text:
        room = self._room(width)
        return Text(f"{'':14} {'':{room}} {'TIME':>9} {'USUAL':>9}", draw.QUIET)

    def _room(self, width: int) -> int:
        return max(4, width - 14 - 1 - 20)


def _phase(name: str, bar: Text, ms: float, usual: float | None, style: Style) -> Text:
    return Text.assemble(
        f"{name[:14]:14} ", bar, (f" {figures.milliseconds(ms):>9}", style),
        (f" {figures.milliseconds(usual):>9}", draw.QUIET),
    )  # fmt: skip
