"""docs/advice.md shows what advise prints today."""

from __future__ import annotations

from pathlib import Path

import pytest

from .cases import CASES, Case, documented


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_document_shows_what_is_printed(case: Case, tmp_path: Path) -> None:
    shown = next(block for one, block in documented() if one is case)
    assert shown == case.block(tmp_path), "python -m accelprof.tests.advisor.cases writes it anew"
