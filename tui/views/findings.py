"""What was found, one by one, with what shows it and where to look."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.message import Message

from ...profiler.report import Finding, Report
from ...profiler.reports import content
from ...profiler.reports.plain import clean, wrap
from .. import draw
from ..model import Snapshot
from ..widgets.findings import MARKS
from ..widgets.panel import Panel
from ..widgets.rows import Rows
from .view import View

_HEAD = ("", "WORTH", "FINDING")
# The view that shows what a finding rests on, by its id; the overview shows the rest
_SHOWN_IN = {
    "input": ("loader-in-process", "too-few-workers", "decode-cpu", "storage", "worker-restart",
              "collate", "remote-data", "worker-died"),
    "roofline": ("small-kernels", "unfused-ops", "optimizer", "precision", "small-batch", "good",
                 "decode", "matmul"),
    "steps": ("step-outliers", "epoch-stall", "stalled", "checkpoint-heavy", "logging-heavy",
              "evaluation-heavy", "synchronisation", "python", "gil", "logging", "recompiles",
              "shape-variation"),
    "devices": ("throttled", "link-degraded", "idle-device", "device-lost", "xid", "unpinned",
                "too-often", "shared-device", "wrong-hardware", "fragmentation"),
    "ranks": ("straggler", "exposed-collective", "rank-imbalance", "mixed-hardware",
              "oversized-cluster"),
    "host": ("cpu-oversubscribed", "cpu-limit", "shm-small", "memory-growth", "memory-capacity",
             "out-of-memory"),
}  # fmt: skip
SHOWN_IN = {ident: view for view, idents in _SHOWN_IN.items() for ident in idents}


class FindingsView(View):
    """The list above, the chosen one below: evidence, doubts, advice."""

    NAME = "findings"
    BINDINGS = [  # noqa: RUF012
        Binding("enter", "why", "why"),
        Binding("c", "copy", "copy"),
    ]
    DEFAULT_CSS = """
    FindingsView Rows { height: auto; max-height: 40%; min-height: 4; }
    FindingsView VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; }
    """

    class Why(Message):
        """The user wants to see what a finding rests on, in this view."""

        def __init__(self, view: str) -> None:
            super().__init__()
            self.view = view

    class Copy(Message):
        """The user wants a finding as Markdown."""

        def __init__(self, finding: Finding) -> None:
            super().__init__()
            self.finding = finding

    def __init__(self) -> None:
        super().__init__()
        self._found: list[Finding] = []

    def compose(self) -> ComposeResult:
        yield Rows(_HEAD, empty="nothing found so far", id="finding-rows")
        with VerticalScroll():
            yield FindingDetail()

    def show(self, snapshot: Snapshot) -> None:
        self._found = content.by_worth(snapshot.findings)
        rows = self.query_one(Rows)
        rows.fill([_row(finding) for finding in self._found], f"findings ({len(self._found)})")
        self.query_one(FindingDetail).show_finding(snapshot, self.chosen)

    @property
    def chosen(self) -> Finding | None:
        """The finding of the chosen line."""
        return self._found[self.query_one(Rows).chosen] if self._found else None

    def on_rows_chosen(self, message: Rows.Chosen) -> None:
        detail = self.query_one(FindingDetail)
        if detail.seen is not None:
            detail.show_finding(detail.seen, self.chosen)
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def action_why(self) -> None:
        """Goes to the view that shows what the chosen finding rests on."""
        if self.chosen is not None:
            self.post_message(self.Why(SHOWN_IN.get(self.chosen.id, "overview")))

    def action_copy(self) -> None:
        """Copies the chosen finding as Markdown."""
        if self.chosen is not None:
            self.post_message(self.Copy(self.chosen))


def _row(finding: Finding) -> tuple[str | Text, ...]:
    return Text(*MARKS[finding.severity]), content.worth(finding), clean(finding.title, 200)


class FindingDetail(Panel[Snapshot]):
    """One finding in full."""

    DEFAULT_CSS = """
    FindingDetail { height: auto; }
    """
    TITLE = "why"

    def __init__(self) -> None:
        super().__init__()
        self._finding: Finding | None = None

    def show_finding(self, snapshot: Snapshot, finding: Finding | None) -> None:
        """Draws this finding from now on."""
        self._finding = finding
        self.show(snapshot)

    def title(self, snapshot: Snapshot) -> str:
        if self._finding is None:
            return self.TITLE
        view = SHOWN_IN.get(self._finding.id, "overview")
        return f"why · enter shows it under {view} · c copies"

    def draw(self, snapshot: Snapshot, width: int, height: int) -> list[Text]:
        finding, width = self._finding, max(20, width)
        if finding is None:
            return []
        mark, style = MARKS[finding.severity]
        worth = content.worth(finding)
        lines = [Text.assemble((f"{mark} ", style), (clean(finding.id), draw.STRONG),
                               f"  {finding.severity}", f"  {worth}" if worth else "")]  # fmt: skip
        lines += [Text(line) for line in wrap(clean(finding.title), width)]
        lines += _part("seen in", [item.text for item in finding.evidence], "·", width)
        lines += _part("change", finding.advice, "→", width)
        return lines + _part("against", _against(snapshot.report, finding), "·", width)


def _against(report: Report, finding: Finding) -> list[str]:
    """What speaks against the verdict stands with the finding that is its cause."""
    return report.verdict.against if finding.id == report.verdict.cause else []


def _part(name: str, items: list[str], mark: str, width: int) -> list[Text]:
    if not items:
        return []
    lines = [Text(""), Text(name, draw.QUIET)]
    for item in items:
        for at, line in enumerate(wrap(clean(item), width - 2)):
            lines.append(Text(f"{mark if at == 0 else ' '} {line}"))
    return lines
