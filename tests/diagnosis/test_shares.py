"""Shares of wall time: they always sum to 1 and never invent time."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from accelprof.profiler.diagnosis import shares, statistics, steady
from accelprof.profiler.diagnosis.model import DeviceUse, Split, StackShares, Step
from accelprof.profiler.report import SHARES

FIELDS = Step._fields
phase = st.one_of(st.none(), st.integers(0, 10**12))


@st.composite
def step(draw: st.DrawFn) -> Step:
    values = {name: draw(phase) for name in FIELDS if name.endswith("_ns")}
    values |= {"t_ns": draw(st.integers(0, 2**62)), "duration_ns": draw(st.integers(1, 10**12))}
    return Step._make(values.get(name) for name in FIELDS)


fraction = st.floats(0, 1)


@st.composite
def division(draw: st.DrawFn) -> shares.Division:
    parts = [draw(st.floats(0.001, 1)) for _ in range(5)]
    total = sum(parts)
    compute, memory, latency, python, unknown = (p / total for p in parts)
    split = Split(compute, memory, latency, python, unknown, 0.9, True, 0.0, {})
    names = ("loader", "input", "model", "logging", "checkpoint", "evaluation", "user")
    seen = {n: draw(fraction) for n in names}
    whole = sum(seen.values()) or 1.0
    stacks = StackShares(draw(st.integers(0, 500)), {k: v / whole for k, v in seen.items()})
    use = draw(st.sampled_from([
        DeviceUse(), DeviceUse(kind="gpu", busy_share=draw(fraction)), DeviceUse(kind="gpu"),
    ]))  # fmt: skip
    return shares.Division(
        draw(st.one_of(st.none(), st.just(split))), use, stacks, True,
        draw(st.one_of(st.none(), fraction)),
    )  # fmt: skip


@given(st.lists(step(), min_size=1, max_size=20), division())
def test_shares_sum_to_one_and_are_shares(steps: list[Step], how: shares.Division) -> None:
    found, by_stacks, unexplained = shares.divide(shares.totals(steps), how)
    assert tuple(found) == SHARES
    assert sum(found.values()) == 1.0
    assert all(-1e-12 <= v <= 1 + 1e-12 for v in found.values())
    assert 0 <= by_stacks <= 1 and -1e-9 <= unexplained <= 1 + 1e-9


@given(step())
def test_the_parts_of_a_step_sum_to_its_duration(one: Step) -> None:
    parts = shares.raw(one)
    assert abs(sum(parts) - one.duration_ns) <= 1e-6 * one.duration_ns + 1e-6
    assert min(parts) >= 0


def test_nothing_has_no_shares() -> None:
    empty = shares.Division(None, DeviceUse(), StackShares(), False, None)
    assert shares.divide(shares.totals([]), empty) == ({}, 0.0, 0.0)


@given(st.integers(1, 5000))
def test_blocks_cover_all_steps_once(count: int) -> None:
    found = statistics.blocks(count)
    assert found[0][0] == 0 and found[-1][1] == count
    assert all(a[1] == b[0] and a[0] < a[1] for a, b in itertools.pairwise(found))


def make(durations: list[int], captured: frozenset[int] = frozenset()) -> list[Step]:
    rows, t = [], 0
    for number, length in enumerate(durations):
        values = {
            "pid": 1,
            "step": number,
            "t_ns": t,
            "duration_ns": length,
            "captured": number in captured,
        }
        rows.append(Step._make(values.get(name) for name in FIELDS))
        t += length
    return rows


def test_slow_start_is_warmup() -> None:
    assert steady.find(make([900, 400, 300, 200] + [100] * 60)).warmup == 4


def test_only_the_first_step_goes_when_there_is_no_warmup() -> None:
    assert steady.find(make([100] * 40)).warmup == 1


def test_checkpointing_every_other_step_is_not_warmup() -> None:
    assert steady.find(make([300 if i % 2 == 0 else 30 for i in range(60)])).warmup == 1


def test_captured_steps_are_left_out() -> None:
    found = steady.find(make([100] * 30, frozenset({5, 6})))
    assert len(found.steps) == 27 and len(found.captured) == 2


def test_a_run_of_one_step_has_no_steady_part() -> None:
    assert steady.find(make([100])).steps == ()


def test_a_run_that_gets_slower_is_no_warmup() -> None:
    assert steady.find(make([100 + i for i in range(100)])).warmup == 1
