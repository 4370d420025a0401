"""The top line: which run, how it goes, how fast."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from ...profiler.report import Time
from ...profiler.reports import figures
from ...profiler.reports.plain import clean, fit
from ..draw import QUIET, STRONG
from ..model import Epoch, Pace, Snapshot

_MARKS = {
    "running": ("●", "bold #009E73"),
    "finished": ("■", "bold"),
    "failed": ("✗", "bold #D55E00"),
    "killed": ("✗", "bold #D55E00"),
    "interrupted": ("✗", "bold #D55E00"),
    "lost": ("?", "bold #E69F00"),
}


class RunHeader(Widget):
    """Run, state, elapsed time, rates; or why there is nothing newer."""

    DEFAULT_CSS = """
    RunHeader { height: 1; background: $panel; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._snapshot: Snapshot | None = None
        self._replay = ""
        self._waits_for = "reading the run …"

    def wait_for(self, what: str) -> None:
        """Why there is nothing to show yet."""
        self._waits_for = f"{fit(clean(what), 200)} …"
        self.refresh()

    def show(self, snapshot: Snapshot, replay: str) -> None:
        """`replay`: how the replay goes ("▶ 4x"), empty when there is none."""
        self._snapshot, self._replay = snapshot, replay
        self.refresh()

    def render(self) -> Text:
        seen = self._snapshot
        if seen is None:
            return Text(self._waits_for, QUIET, no_wrap=True, overflow="ellipsis")
        mark, style = _MARKS.get(seen.state, ("?", "bold"))
        name = fit(clean(seen.name), 24)
        line = Text.assemble((name, STRONG), "  ", (f"{mark} {seen.state}", style), "  ")
        if seen.problem:
            line.append(fit(clean(seen.problem), self.size.width - line.cell_len), "bold #D55E00")
            return line
        line.append(self._times(seen))
        for text in self._rates(seen):
            if line.cell_len + len(text) + 3 > self.size.width:
                break
            line.append("  │  ", QUIET)
            line.append(text)
        return line

    def _times(self, seen: Snapshot) -> str:
        if not self._replay:
            return figures.clock(seen.elapsed_s)
        return f"{figures.clock(seen.elapsed_s)} of {figures.clock(seen.length_s)} {self._replay}"

    def _rates(self, seen: Snapshot) -> list[str]:
        """Of the last minute; of a run that is over, and not replayed, its own as in the report."""
        of: Pace | Time = seen.pace
        p50_ms = seen.pace.p50_ms
        if not seen.live and not self._replay and seen.report.time.steps_per_s is not None:
            of, p50_ms = seen.report.time, seen.report.time.step_ms.p50
        found = []
        if of.steps_per_s is not None:
            found.append(figures.rate(of.steps_per_s, "steps"))
        if of.samples_per_s is not None:
            found.append(figures.rate(of.samples_per_s, "samples"))
        if seen.epoch is not None:
            found.append(_epoch(seen.epoch, seen.live))
        if p50_ms is not None:
            found.append(f"{figures.milliseconds(p50_ms)} a step")
        if seen.report.time.steps_total:
            found.append(figures.count(seen.report.time.steps_total, "step"))
        return found


def _epoch(epoch: Epoch, live: bool) -> str:
    """`epoch 3 48 %, 0:19 left`; what is left is of the epoch: nobody tells how many there are."""
    text = f"epoch {epoch.number}"
    if epoch.share is not None:
        text += f" {figures.share(epoch.share)}"
    if live and epoch.left_s is not None:
        text += f", {figures.clock(epoch.left_s)} left"
    return text
