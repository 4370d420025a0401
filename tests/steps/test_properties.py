"""Whatever the spans are: phases, gap and pre_forward sum to the duration, and nothing is negative
or counted twice."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from span_script import T0, Script, check, steps

from accelprof import storage
from accelprof.hooks import wire
from accelprof.profiler.accounting import Accountant, Tally, flatten
from accelprof.profiler.steps import StepBuilder

SCHEMA = Path(storage.__file__).parent / "schema.sql"
KINDS = st.sampled_from(range(20))
FLAGS = st.sampled_from([0, 0, 0, 1, 2, 3, 3, 4, 7, wire.F_RAISED, wire.F_OTHER_THREAD])
SPAN = st.tuples(
    st.integers(0, 3000), st.integers(0, 200), KINDS, FLAGS, st.integers(0, 2), st.integers(0, 40)
)


@st.composite
def overlapping(draw):
    """Spans with no order at all between them, but that of their ends."""
    found = [
        (T0 + start, T0 + start + length, kind, flags, ident, value)
        for start, length, kind, flags, ident, value in draw(st.lists(SPAN, max_size=80))
    ]
    return sorted(found, key=lambda span: span[1])


@st.composite
def nested(draw):
    """Properly nested spans of the timeline, as a real thread makes them."""
    out = []
    now = T0

    def block(depth: int) -> None:
        nonlocal now
        start = now
        now += draw(st.integers(0, 3))
        if depth < 3:
            for _ in range(draw(st.integers(0, 3))):
                block(depth + 1)
        now += draw(st.integers(0, 3))
        kind, flags = draw(KINDS), draw(FLAGS) & 3
        out.append((start, now, kind, flags, draw(st.integers(0, 2)), 0))
        now += draw(st.integers(0, 2))

    for _ in range(draw(st.integers(0, 12))):
        block(0)
    return out


def run(spans, chunk, **how):
    builder = StepBuilder(1, 0, **how)
    rows = []
    for at in range(0, len(spans), chunk):
        rows += builder.feed(spans[at : at + chunk]).steps
    return rows + builder.finish().steps


@settings(max_examples=300, deadline=None)
@given(overlapping(), st.integers(1, 30), st.booleans())
def test_rows_always_add_up(spans, chunk, optimizer_known):
    check(run(spans, chunk, optimizer_known=optimizer_known))


@settings(max_examples=200, deadline=None)
@given(nested(), st.integers(1, 30))
def test_chunks_do_not_matter(spans, chunk):
    assert check(run(spans, chunk)) == run(spans, 10_000)


@settings(max_examples=200, deadline=None)
@given(nested())
def test_covered_time_is_the_union(spans):
    """Exclusive phases together are the time that at least one span covers."""
    timeline = [s for s in spans if s[2] in (wire.FORWARD, wire.BACKWARD, wire.H2D, wire.LOGGING)]
    if not timeline:
        return
    start, end = min(s[0] for s in timeline), max(s[1] for s in timeline)
    tally = Tally()
    Accountant().add(tally, timeline, start, end, evaluation=False)
    covered, at = 0, start
    for low, high in sorted(s[:2] for s in timeline):
        covered += max(0, high - max(low, at))
        at = max(at, high)
    assert sum(tally.phases.values()) == covered
    assert tally.total() == end - start


@given(overlapping(), st.integers(0, 3000), st.integers(0, 3000))
def test_pieces_never_overlap(spans, low, high):
    low, high = T0 + min(low, high), T0 + max(low, high)
    at = low
    for piece in flatten(spans, low, high):
        assert at <= piece[0] < piece[1] <= high
        at = piece[1]


@settings(max_examples=100, deadline=None)
@given(nested(), st.data())
def test_summing_up_early_loses_no_time(spans, data):
    builder = StepBuilder(1)
    rows = []
    for span in spans:
        rows += builder.feed([span]).steps
        if data.draw(st.integers(0, 5)) == 0 and builder.mode != "unknown" and builder._spans:
            builder._sum_up()
    check(rows + builder.finish().steps)


def test_columns_are_those_of_the_schema():
    table = SCHEMA.read_text().split("EXISTS step (")[1].split(");")[0]
    columns = re.findall(r"^\s*(\w+) [A-Z]|, (\w+) [A-Z]", re.sub("--.*", "", table), re.MULTILINE)
    job = Script()
    job.train()
    assert set(steps(job)[0]) == {a or b for a, b in columns}
