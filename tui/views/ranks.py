"""The ranks side by side: who is slow, who waits for whom."""

from __future__ import annotations

from typing import Any

from rich.text import Text
from textual.app import ComposeResult

from ...profiler.reports import figures
from ...profiler.reports.plain import clean
from .. import draw
from ..model import Snapshot
from ..widgets.rows import Rows
from .view import View

# Keys of the report's ranks with their names here and how they are written; others follow as told
_KNOWN: dict[str, tuple[str, Any]] = {
    "rank": ("RANK", str), "pid": ("PID", str), "steps": ("STEPS", figures.count),
    "step_ms": ("MEAN", figures.milliseconds), "own_ms": ("OWN", figures.milliseconds),
    "wait_ms": ("WAITS", figures.milliseconds), "slowest_share": ("SLOWEST IN", figures.share),
    "input_share": ("INPUT", figures.share), "communication_share": ("COMM", figures.share),
}  # fmt: skip


class RanksView(View):
    """A line a rank, with a bar of its step time."""

    NAME = "ranks"

    def compose(self) -> ComposeResult:
        yield Rows(("",), id="rank-rows", chooses=False, empty="no rank has made a step so far")

    def show(self, snapshot: Snapshot) -> None:
        ranks = snapshot.report.ranks
        rows = self.query_one(Rows)
        if not ranks:
            rows.fill([], "ranks")
            return
        keys = [key for key in ranks[0] if all(_simple(rank.get(key)) for rank in ranks)]
        rows.head([*(_name(key) for key in keys), ""], range(len(keys)), _give_way(keys))
        slowest = max((rank.get("step_ms") or 0.0 for rank in ranks), default=0.0)
        shown: list[list[str | Text]] = [
            [*(_text(key, rank.get(key)) for key in keys), _bar(rank.get("step_ms"), slowest)]
            for rank in ranks
        ]
        alone = " · one rank: nothing to compare it with" if len(ranks) == 1 else ""
        rows.fill(shown, f"ranks ({len(ranks)}){alone}")


def _give_way(keys: list[str]) -> list[int]:
    """The bar, then whatever is no figure of a step."""
    return [len(keys), *(keys.index(key) for key in ("pid", "host", "steps") if key in keys)]


def _simple(value: Any) -> bool:
    return value is None or isinstance(value, int | float | str)


def _name(key: str) -> str:
    return _KNOWN[key][0] if key in _KNOWN else clean(key.replace("_", " ").upper(), 24)


def _text(key: str, value: Any) -> str:
    if value is None:
        return figures.UNKNOWN
    if key in _KNOWN:
        return str(_KNOWN[key][1](value))
    if key.endswith("_share"):
        return figures.share(value)
    return figures.number(value) if isinstance(value, float) else clean(value, 40)


def _bar(step_ms: float | None, slowest: float) -> Text:
    return draw.meter(step_ms / slowest if step_ms and slowest else None, 20, warns=False)
