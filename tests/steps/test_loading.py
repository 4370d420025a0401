"""A loop that only reads a DataLoader: each batch is a step, until a model is called."""

from __future__ import annotations

from span_script import MS, Script, ms, steps

from accelprof.profiler.steps import FEWEST_LOADS, StepBuilder


def epochs(s: Script, count: int, batches: int, fetch_ms: float = 4) -> Script:
    for _ in range(count):
        s.start()
        for _ in range(batches):
            s.fetch(ms=fetch_ms, samples=8)
            s.idle(1)
        s.stop()
    return s


def test_each_batch_is_a_step():
    rows = steps(epochs(Script(), 2, 10))
    assert [row["kind"] for row in rows] == ["loading"] * 20
    assert ms(rows, "duration_ns")[1:9] == [5] * 8
    assert ms(rows, "data_wait_ns")[:3] == [0, 4, 4]
    assert ms(rows, "gap_ns")[:3] == [1, 1, 1]
    assert ms(rows, "forward_ns") == ms(rows, "pre_forward_ns") == [None] * 20
    assert [row["samples"] for row in rows] == [8] * 20
    assert [at for at, row in enumerate(rows) if row["first_of_epoch"]] == [0, 10]


def test_two_loaders_side_by_side_are_one_step():
    s = Script()
    for _ in range(12):
        s.fetch(1, samples=4)
        s.fetch(2, samples=4)
        s.idle(2)
    rows = steps(s)
    assert len(rows) == 12 and ms(rows, "data_wait_ns") == [4] * 12


def test_a_look_at_a_few_batches_is_no_step():
    assert steps(epochs(Script(), 1, FEWEST_LOADS - 1)) == []


def test_long_loading_is_told_while_it_runs_and_ends_with_a_call_of_a_model():
    s = epochs(Script(), 1, 100, fetch_ms=299)
    builder = StepBuilder(1, 0)
    told = builder.feed(s.spans).steps
    assert len(told) > 90 and {row["kind"] for row in told} == {"loading"}
    at = len(s.spans)
    s.start()
    for _ in range(5):
        s.train(samples=8)
    rest = builder.feed(s.spans[at:]).steps + builder.finish().steps
    trained = [row for row in rest if row["kind"] == "train"]
    assert len(trained) == 5 and ms(trained, "duration_ns")[1:] == [10] * 4
    assert all(row["duration_ns"] < 400 * MS for row in rest[:-5])


def test_a_short_pass_over_the_data_before_a_training_makes_no_steps():
    s = epochs(Script(), 1, 40)
    for _ in range(5):
        s.train()
    assert {row["kind"] for row in steps(s)} == {"train"}
