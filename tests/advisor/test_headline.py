"""The sentence that advice begins with: what helps, and money in digits that can be paid."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelprof.profiler import advisor
from accelprof.profiler.advisor import Question, headline

from .runs import product, record


@pytest.mark.parametrize(
    ("usd", "shown"),
    [(1234.5, "$1,234.50"), (0.014, "$0.01"), (0.01, "$0.01"), (0.00123, "$0.0012"),
     (0.0000456, "$0.000046"), (1e6, "$1,000,000.00")],
)  # fmt: skip
def test_dollars(usd: float, shown: str) -> None:
    assert headline._dollars(usd) == shown


def test_where_every_accelerator_takes_as_long(tmp_path: Path) -> None:
    """The loader sets the pace everywhere: two ways to say so, by how much of a step it takes."""
    ops = [product(4096, 4096, 4096, 40.0, calls=55)]
    run = record(tmp_path / "run.duckdb", ops, work_ms=40.0, wait_ms=60.0, workers=4)
    basis = advisor.read(run)
    advice = advisor.advise(basis, Question())
    waits = "A faster accelerator would not help: 60% of each step waits for input"
    assert advice.headline.startswith(waits)
    ranked = [row for row in advice.accelerators if row.rank_time is not None]
    assert headline._alike(basis, ranked) == (
        "No accelerator helps more than another: a step takes 100 ms on each of them, as now, "
        "because work outside the accelerator sets the pace (too-few-workers)."
    )
