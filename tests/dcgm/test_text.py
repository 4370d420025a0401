"""The reader of exposition text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from accelprof.profiler.collectors.dcgm_text import samples


def test_what_the_format_allows() -> None:
    text = """
# HELP a Help with {braces="1"} 5
a 1
b{} 2
c{x="a \\"quote\\", } \\\\ \\n",Y="z",} 3e-1 1700000000123
d_total{x="1"} 4 1700000000.5 # {trace="q"} 0.5
e{x="open} 5
f{x="1"}
g NaN
garbage line here too
# EOF
"""
    found = {sample.name: sample for sample in samples(text)}
    assert set(found) == {"a", "b", "c", "d_total", "g"}
    assert found["c"].labels == {"x": 'a "quote", } \\ \n', "y": "z"}
    assert (found["c"].value, found["c"].time_s) == (0.3, 1700000000.123)
    assert found["d_total"].time_s == 1700000000.5


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    list(samples(text))


def test_a_long_broken_line_costs_little() -> None:
    assert list(samples('a{x="' + '\\"' * 200_000)) == []
    assert list(samples("a{" + "x" * 200_000)) == []
