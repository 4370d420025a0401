"""Every case in every written form, against the files under golden/.

UPDATE_GOLDEN=1 writes them anew; look at the difference before it is committed.
"""

import os
from collections.abc import Callable
from pathlib import Path

import cases
import pytest

from accelprof.profiler.report import Report
from accelprof.profiler.reports import FORMATS
from accelprof.profiler.reports.card import render_card

GOLDEN = Path(__file__).parent / "golden"
RUNS = Path("/data/runs")


def _card(report: Report) -> str:
    return render_card(report, False, folder=RUNS / report.run.id)


FORMS: dict[str, Callable[[Report], str]] = {
    "card": _card,
    "md": FORMATS["md"],
    "txt": FORMATS["txt"],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", cases.CASES)
def test_golden(case: str, form: str) -> None:
    text = FORMS[form](cases.CASES[case]())
    file = GOLDEN / f"{case}.{form}"
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def test_no_golden_file_is_left_over() -> None:
    assert {file.name for file in GOLDEN.iterdir()} == {
        f"{case}.{form}" for case in cases.CASES for form in FORMS
    }
