"""Text of the job never acts on the terminal, and never leaves its place."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from accelprof.profiler.reports import phases, plain

TEXT = st.text(st.characters(), max_size=300)


@given(TEXT)
def test_clean_leaves_nothing_that_acts(text: str) -> None:
    shown = plain.clean(text)
    assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    shown.encode("utf-8")


def test_clean_shows_what_it_took() -> None:
    assert plain.clean("\x1b[2Ja\u202eb\n c\udcff") == "\\x1b[2Ja\\u202eb  c\\xff"
    assert plain.clean("Größe 中文 ok") == "Größe 中文 ok"
    assert plain.clean("x" * 50, 10) == "x" * 10 + "…"


@given(TEXT, st.integers(2, 60), st.none() | st.integers(1, 5))
def test_wrap_stays_within_its_lines(text: str, cells: int, lines: int | None) -> None:
    done = plain.wrap(plain.clean(text), cells, lines)
    assert all(plain.width(line) <= cells for line in done)
    assert lines is None or len(done) <= lines


@given(TEXT, st.integers(1, 40), st.booleans())
def test_align_is_exact(text: str, cells: int, right: bool) -> None:
    assert plain.width(plain.align(plain.clean(text), cells, right=right)) == cells


def test_a_unit_stays_with_its_number() -> None:
    assert plain.wrap("it takes 97 % of 12 GB/s", 12) == ["it takes", "97 % of", "12 GB/s"]


@given(st.lists(st.floats(0, 1), max_size=12), st.integers(0, 100))
def test_cells_sum_to_the_width(parts: list[float], total: int) -> None:
    given_cells = phases.cells(parts, total)
    assert sum(given_cells) == (total if sum(parts) > 0 else 0)
    assert all(cells >= 0 for cells in given_cells)


def test_looks_can_be_told_apart() -> None:
    for values in zip(*phases.LOOKS.values(), strict=True):
        assert len(set(values)) == len(phases.LOOKS)
