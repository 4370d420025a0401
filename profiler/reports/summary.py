"""What a list of runs shows of each run: written into the run's own file when it is judged.

Table `meta`, key SUMMARY_KEY, so that `accelprof runs` need not judge every run again.
"""

from __future__ import annotations

import msgspec

from ..report import Bottleneck, Confidence, Report

SUMMARY_KEY = "summary"


class Summary(msgspec.Struct, frozen=True):
    bottleneck: Bottleneck | None = None
    confidence: Confidence | None = None
    headline: str | None = None
    steps: int | None = None
    samples_per_s: float | None = None


def summary_row(report: Report) -> tuple[str, str]:
    """The row of table `meta` that keeps the summary of a run."""
    found = Summary(
        report.verdict.bottleneck,
        report.verdict.confidence,
        report.verdict.headline,
        report.time.steps_total,
        report.time.samples_per_s,
    )
    return SUMMARY_KEY, msgspec.json.encode(found).decode()


def read_summary(text: str | None) -> Summary:
    """The summary in a row of table `meta`; an empty one when it is missing or not ours."""
    try:
        return msgspec.json.decode(text or "{}", type=Summary)
    except msgspec.MsgspecError:
        return Summary()
