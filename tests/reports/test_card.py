"""The card fits, says what matters, and is safe to print."""

import io
import re
from pathlib import Path

import cases
import pytest

from accelprof.profiler.report import Verdict
from accelprof.profiler.reports.card import MOST_LINES, render_card, to_ascii
from accelprof.profiler.reports.paint import wants_colour
from accelprof.profiler.reports.plain import width

SGR = re.compile(r"\x1b\[[\d;]*m")


@pytest.mark.parametrize("case", cases.CASES)
@pytest.mark.parametrize("columns", [60, 80, 100])
def test_fits(case: str, columns: int) -> None:
    lines = render_card(cases.CASES[case](), False, columns).splitlines()
    assert all(width(line) <= columns for line in lines), lines
    if columns >= 80:
        assert len(lines) <= MOST_LINES


@pytest.mark.parametrize("case", cases.CASES)
def test_only_colour_is_added_by_colour(case: str) -> None:
    painted = render_card(cases.CASES[case](), True)
    assert "\x1b" not in SGR.sub("", painted)
    assert "\x1b" not in render_card(cases.CASES[case](), False)
    without = [line for line in SGR.sub("", painted).splitlines() if "█" not in line]
    plain = render_card(cases.CASES[case](), False).splitlines()
    # All lines but the bar and its legend are the same
    assert len([line for line in without if line not in plain]) <= 1


def test_says_what_matters() -> None:
    card = render_card(cases.input_bound(), False, folder=Path("/data/runs/x"))
    for text in ("INPUT-BOUND", "high confidence", "too-few-workers", "input 71 %", "182 ms",
                 "170 samples/s", "DataLoader(num_workers=4)", "up to 3.4x", "/data/runs/x",
                 "accelprof report"):  # fmt: skip
        assert text in card


def test_a_run_elsewhere_is_named_by_its_path_whole() -> None:
    folder = Path("/scratch") / ("deep-" * 30) / "20260112-101500-resnet-ab12"
    card = render_card(cases.input_bound(), False, folder=folder)
    joined = re.sub(r"\n {9}", "", card)
    assert f"run      {folder}\n" in joined
    assert f"accelprof report {folder}\n" in joined


def test_the_worth_survives_a_long_change() -> None:
    report = cases.input_bound()
    report.findings[0].advice[0] = "change this " * 60
    assert "… (up to 3.4x)" in render_card(report, False)


def test_the_deadly_comes_first() -> None:
    card = render_card(cases.killed(), False)
    assert card.index("smaller prefetch_factor") < card.index("num_workers=4")
    assert "killed by signal 9" in card
    stopped = cases.killed()
    stopped.run.exit_status = 130
    assert "interrupted after 1 min 02 s" in render_card(stopped, False)
    assert "1,312\n         events lost" in card


def test_words_are_not_cut_off() -> None:
    """What does not fit is left out whole, the second change before a word of the first."""
    report = cases.input_bound()
    report.verdict.headline = "Input-bound: " + "many words that matter, " * 15 + "end."
    report.findings[0].advice[0] = "change this to that, and mind what it costs, " * 8 + "last"
    card = render_card(report, False)
    assert "…" not in card
    assert "end." in card and "last (up to 3.4x)" in card
    assert "persistent_workers" not in card
    assert len(card.splitlines()) <= MOST_LINES


def test_without_unicode() -> None:
    assert to_ascii(render_card(cases.input_bound(), False)).isascii()


def test_shares_in_any_order_and_a_verdict_of_nothing() -> None:
    report = cases.empty()
    report.verdict = Verdict("inconclusive", "low", "", None, [], None, [])
    assert "INCONCLUSIVE" in render_card(report, True)


def test_colour_is_for_terminals() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert wants_colour(Terminal(), {})
    assert not wants_colour(Terminal(), {"NO_COLOR": "1"})
    assert not wants_colour(Terminal(), {"TERM": "dumb"})
    assert not wants_colour(io.StringIO(), {})
