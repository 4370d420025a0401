"""Every kind of loop comes out as the steps that its author would count."""

from __future__ import annotations

import pytest
from span_script import MS, TRAIN, Script, ms, steps

from accelprof.hooks import wire
from accelprof.profiler.steps import REPEATS, UNKNOWN_FORWARDS, StepBuilder


def test_loader():
    s = Script()
    s.start()
    for _ in range(5):
        s.train(samples=32)
        s.idle(1)
    s.stop()
    rows = steps(s)
    assert ms(rows, "duration_ns") == [12, 11, 11, 11, 12]
    assert ms(rows, "forward_ns") == [3] * 5
    assert ms(rows, "backward_ns") == [4] * 5
    assert ms(rows, "optimizer_ns") == [1] * 5
    assert ms(rows, "data_wait_ns") == [0, 2, 2, 2, 2]
    assert ms(rows, "iterator_ns") == [3, 0, 0, 0, 1]  # start and first batch; the end
    assert ms(rows, "data_wait_cpu_ns") == [0, 1, 1, 1, 1]
    assert [r["samples"] for r in rows] == [32] * 5
    assert [r["micro_batches"] for r in rows] == [1] * 5
    assert [r["first_of_epoch"] for r in rows] == [True, False, False, False, False]
    assert {r["kind"] for r in rows} == {"train"}
    assert rows[0]["pid"] == 1
    assert rows[0]["rank"] == 0


def test_never_seen_is_null_and_seen_is_zero():
    s = Script()
    for _ in range(3):
        s.train()
    s.span(wire.CHECKPOINT, 5)
    for _ in range(2):
        s.train()
    rows = steps(s)
    assert ms(rows, "checkpoint_ns") == [None, None, 5, 0, 0]
    assert ms(rows, "logging_ns") == [None] * 5
    assert ms(rows, "evaluation_ns") == [None] * 5
    assert ms(rows, "gc_ns") == [None] * 5


def test_no_loader():
    s = Script()
    for _ in range(5):
        s.idle(2)
        s.train(loader=None)
    rows = steps(s)
    assert len(rows) == 5
    assert ms(rows, "duration_ns")[1:] == [10] * 4
    assert ms(rows, "pre_forward_ns")[1:] == [2] * 4
    assert ms(rows, "data_wait_ns") == [None] * 5
    assert [r["micro_batches"] for r in rows] == [1] * 5


def test_samples_from_the_call_without_a_loader():
    s = Script()
    for _ in range(3):
        s.forward(value=16)
        s.backward()
        s.step()
    assert [r["samples"] for r in steps(s)] == [16] * 3


def test_batch_in_memory_fetched_once():
    """`x, y = next(iter(loader))`, then hundreds of steps on it."""
    s = Script()
    s.start()
    s.fetch()
    for _ in range(REPEATS + 10):
        s.train(loader=None)
    assert len(steps(s)) == REPEATS + 10
    short = Script()
    short.fetch()
    for _ in range(6):
        short.train(loader=None)
    assert len(steps(short)) == 6


@pytest.mark.parametrize("with_loader", [True, False])
def test_accumulation(with_loader):
    s = Script()
    for _ in range(3):
        for _ in range(4):
            if with_loader:
                s.fetch(samples=8)
            s.forward()
            s.backward()
        s.step()
    rows = steps(s)
    assert len(rows) == 3
    assert [r["micro_batches"] for r in rows] == [4] * 3
    assert [r["samples"] for r in rows] == ([32] * 3 if with_loader else [None] * 3)


def test_micro_batches_prefetched_together():
    """HF Trainer fetches all micro-batches of a step before the first forward."""
    s = Script()
    s.start()
    for _ in range(3):
        for _ in range(4):
            s.fetch(samples=8)
            s.span(wire.H2D, 0.5)
        for _ in range(4):
            s.forward()
            s.backward()
        s.step()
    rows = steps(s)
    assert len(rows) == 3
    assert [r["samples"] for r in rows] == [32] * 3
    assert [r["micro_batches"] for r in rows] == [4] * 3
    assert ms(rows, "data_wait_ns") == [6, 8, 8]


def test_one_batch_ahead():
    """Accelerate fetches the next batch before it hands out this one."""
    s = Script()
    for _ in range(2):
        s.start()
        s.fetch(samples=8)
        for _ in range(4):
            s.fetch(samples=8)
            s.forward()
            s.backward()
            s.step()
        s.stop()
        s.forward()
        s.backward()
        s.step()
    rows = steps(s)
    assert len(rows) == 10
    assert [r["first_of_epoch"] for r in rows] == [True, *[False] * 4] * 2
    assert sum(r["samples"] or 0 for r in rows) == 80
    assert [r["micro_batches"] for r in rows] == [1] * 10


@pytest.mark.parametrize("with_loader", [True, False])
def test_gan(with_loader):
    s = Script()
    for _ in range(4):
        if with_loader:
            s.fetch(samples=8)
        s.forward(root=1)
        s.backward()
        s.forward(root=0)
        s.forward(root=1)
        s.backward()
        s.step(optimizer=1)
        s.forward(root=1)
        s.backward()
        s.step(optimizer=0)
        s.span(wire.LOGGING, 1)
    rows = steps(s)
    assert len(rows) == 4
    assert ms(rows, "optimizer_ns") == [2] * 4
    assert [r["micro_batches"] for r in rows] == [1] * 4
    assert ms(rows, "evaluation_ns") == [None] * 4


def wgan(with_loader):
    s = Script()
    for _ in range(4):
        if with_loader:
            s.fetch()
        for _ in range(5):
            s.predict(root=0, flags=wire.F_TRAINING)  # the fakes, under no_grad
            s.forward(root=1)
            s.backward()
            s.step(optimizer=1)
        s.forward(root=0)
        s.forward(root=1)
        s.backward()
        s.step(optimizer=0)
    return s


def test_wgan_with_a_loader_is_one_step_a_batch():
    rows = steps(wgan(True))
    assert len(rows) == 4
    assert ms(rows, "optimizer_ns") == [6] * 4
    assert ms(rows, "evaluation_ns") == [None] * 4


def test_wgan_without_a_loader_is_one_step_a_critic_step():
    rows = steps(wgan(False))
    assert len(rows) == 20
    assert ms(rows, "optimizer_ns") == [1, 1, 1, 1, 2] * 4


@pytest.mark.parametrize("evaluations", [20, 250])
@pytest.mark.parametrize("with_loader", [True, False])
def test_lbfgs(with_loader, evaluations):
    s = Script()
    for _ in range(3):
        if with_loader:
            s.fetch(samples=64)
        with s.inside(wire.OPTIMIZER):
            for _ in range(evaluations):
                s.forward()
                s.backward()
                s.idle(1)
    rows = steps(s)
    if with_loader or evaluations == 20:
        assert len(rows) == 3
        assert ms(rows, "optimizer_ns") == [evaluations] * 3
        assert [r["micro_batches"] for r in rows] == [1] * 3
        assert [r["samples"] for r in rows] == ([64] * 3 if with_loader else [None] * 3)


def test_optimizers_that_step_inside_the_backward():
    s = Script()
    for _ in range(4):
        s.forward()
        with s.inside(wire.BACKWARD):
            for ident in range(5):
                s.idle(1)
                s.step(ident)
            s.idle(1)
    rows = steps(s)
    assert ms(rows, "duration_ns") == [14] * 4
    assert ms(rows, "backward_ns") == [6] * 4


def test_inference_with_a_loader():
    s = Script()
    s.start()
    for _ in range(UNKNOWN_FORWARDS + 5):
        s.fetch(samples=4)
        s.predict()
        s.idle(1)
    s.stop()
    rows = steps(s)
    assert len(rows) == UNKNOWN_FORWARDS + 5
    assert {r["kind"] for r in rows} == {"inference"}
    assert {r["samples"] for r in rows} == {4}
    assert {r["evaluation_ns"] for r in rows} == {None}
    assert ms(rows, "duration_ns")[1:-1] == [6] * (UNKNOWN_FORWARDS + 3)


def test_inference_without_a_loader():
    s = Script()
    for _ in range(7):
        s.predict(value=2)
        s.idle(2)
    rows = steps(s)
    assert ms(rows, "duration_ns") == [5] * 6 + [3]
    assert ms(rows, "gap_ns") == [2] * 6 + [0]
    assert [r["samples"] for r in rows] == [2] * 7


def test_two_root_modules_an_iteration():
    s = Script()
    for _ in range(6):
        s.predict(root=0)
        s.predict(root=1)
        s.idle(1)
    rows = steps(s)
    assert len(rows) == 6
    assert ms(rows, "forward_ns") == [6] * 6
    trained = Script()
    for _ in range(6):
        trained.forward(root=0)
        trained.forward(root=1)
        trained.backward()
        trained.step()
    assert ms(steps(trained), "forward_ns") == [6] * 6


def test_autoregressive_decode():
    """A token is a step, whether its prompt came from a loader or not."""
    s = Script()
    for _ in range(3):
        s.predict(root=0)  # encoder
        for _ in range(50):
            s.predict(root=1)
    rows = steps(s)
    assert len(rows) == 150
    assert ms(rows, "forward_ns")[:2] == [6, 3]


def test_inference_is_told_while_it_runs():
    s = Script()
    for _ in range(3 * UNKNOWN_FORWARDS):
        s.predict()
    told = StepBuilder(1).feed(s.spans).steps
    assert len(told) == 3 * UNKNOWN_FORWARDS - 2


def test_backward_without_an_optimizer():
    s = Script()
    for _ in range(6):
        s.fetch()
        s.forward()
        s.backward()
        s.idle(1)  # p -= lr * p.grad
    rows = steps(s)
    assert len(rows) == 6
    assert {r["kind"] for r in rows} == {"train"}
    assert ms(rows, "duration_ns")[:5] == [10] * 5
    inline = Script()
    for _ in range(6):
        inline.forward()
        inline.backward()
        inline.idle(1)
    assert len(steps(inline)) == 6
    long = Script()
    for _ in range(600):
        long.train(loader=None)
        long.spans.pop()
    assert len(steps(long)) == 600


def test_evaluation_between_epochs():
    s = Script()
    for _ in range(2):
        s.start()
        for _ in range(3):
            s.train()
        s.stop()
        s.evaluate(4)
    rows = steps(s)
    assert len(rows) == 6
    # start, 4 x (fetch, forward, metrics), end
    assert ms(rows, "evaluation_ns") == [None, None, None, 26, 0, 26]
    assert ms(rows, "iterator_ns") == [3, 0, 0, 4, 0, 1]
    assert ms(rows, "data_wait_ns") == [0, 2, 2, 0, 2, 2]
    assert ms(rows, "forward_ns") == [3] * 6
    assert [r["first_of_epoch"] for r in rows] == [True, False, False, True, False, False]


def test_evaluation_in_the_middle_of_an_epoch():
    s = Script()
    s.start()
    for n in range(6):
        s.train()
        if n == 2:
            s.evaluate(3)
            s.span(wire.CHECKPOINT, 7)
    rows = steps(s)
    assert ms(rows, "evaluation_ns") == [None, None, None, 20, 0, 0]
    assert ms(rows, "checkpoint_ns") == [None, None, None, 7, 0, 0]
    assert [r["first_of_epoch"] for r in rows] == [True, *[False] * 5]


def test_evaluation_that_breaks_off():
    s = Script()
    for n in range(6):
        s.train()
        if n == 2:
            s.evaluate(3, ends=False)
            s.idle(5)
    rows = steps(s)
    assert ms(rows, "evaluation_ns")[3] == 18  # to its last forward
    assert ms(rows, "pre_forward_ns")[3] == 6


def test_evaluation_with_the_same_loader():
    s = Script()
    for _ in range(2):
        s.start()
        for _ in range(3):
            s.train()
        s.stop()
        s.evaluate(3, loader=1)
    rows = steps(s)
    assert len(rows) == 6
    assert ms(rows, "forward_ns") == [3] * 6
    assert sum(ms(rows, "evaluation_ns")[3:]) >= 2 * 18


def test_evaluation_one_batch_ahead():
    s = Script()
    for _ in range(3):
        s.train()
    s.start(2)
    s.fetch(2)
    for _ in range(3):
        s.fetch(2)
        s.predict()
    s.stop(2)
    s.predict()
    for _ in range(3):
        s.train()
    rows = steps(s)
    assert len(rows) == 6
    assert ms(rows, "evaluation_ns")[3] == 22
    assert ms(rows, "data_wait_ns") == [2] * 6


def test_evaluation_in_eval_mode_with_grad():
    s = Script()
    for _ in range(3):
        s.train()
    for _ in range(3):
        s.fetch(2)
        s.predict(flags=wire.F_GRAD)
    s.train()
    rows = steps(s)
    assert len(rows) == 4
    assert ms(rows, "evaluation_ns")[3] == 15


def test_evaluation_without_a_loader():
    """One tensor of validation data, looked at after each step."""
    s = Script()
    for _ in range(4):
        s.train(loader=None)
        s.predict(ms=2)
        s.predict(ms=2)
    rows = steps(s)
    assert len(rows) == 4
    assert ms(rows, "evaluation_ns") == [None, 4, 4, 8]
    assert ms(rows, "forward_ns") == [3] * 4


def test_frozen_teacher_is_no_evaluation():
    s = Script()
    for _ in range(4):
        s.fetch()
        s.predict(root=7)
        s.forward(root=0)
        s.backward()
        s.step()
    rows = steps(s)
    assert ms(rows, "evaluation_ns") == [None] * 4
    assert ms(rows, "forward_ns") == [6] * 4


def test_sanity_validation_before_training():
    s = Script()
    s.evaluate(2)
    s.start()
    for _ in range(3):
        s.train()
    rows = steps(s)
    assert [r["kind"] for r in rows] == ["train"] * 3
    assert ms(rows, "evaluation_ns") == [14, 0, 0]


def test_long_evaluation_before_training():
    """Too long to wait for: told as inference, unless an optimizer is known to be there."""
    s = Script()
    s.evaluate(UNKNOWN_FORWARDS * 3)
    for _ in range(3):
        s.train()
    kinds = [r["kind"] for r in steps(s)]
    assert kinds[-3:] == ["train"] * 3
    assert set(kinds[:-3]) == {"inference"}
    rows = steps(s, StepBuilder(1, 0, optimizer_known=True))
    assert len(rows) == 3
    assert ms(rows, "evaluation_ns")[0] == UNKNOWN_FORWARDS * 3 * 6 + 2


def test_framework_says_evaluation():
    s = Script()
    for n in range(4):
        s.train()
        if n == 1:
            with s.inside(wire.EVALUATION):
                s.idle(3)
                s.evaluate(2)
                s.span(wire.LOGGING, 1)
    rows = steps(s)
    assert len(rows) == 4
    # what comes before its first fetch is at the end of the step before
    assert sum(ms(rows, "evaluation_ns")[2:]) == 15
    assert ms(rows, "logging_ns") == [None, None, 0, 0]


def test_exception_in_a_step():
    """Out of memory in forward, caught, tried again with the next batch: no update, no step."""
    s = Script()
    s.train()
    s.fetch()
    s.span(wire.FORWARD, 3, TRAIN | wire.F_RAISED)
    s.train()
    s.fetch()
    s.forward()
    s.backward()
    s.span(wire.OPTIMIZER, 1, wire.F_RAISED)
    s.train()
    rows = steps(s)
    assert len(rows) == 3
    assert ms(rows, "forward_ns") == [3, 6, 6]


def test_death_in_a_step():
    s = Script()
    for _ in range(3):
        s.train()
    s.fetch()
    s.forward()
    assert len(steps(s)) == 3
    inline = Script()
    for _ in range(3):
        inline.train(loader=None)
    inline.forward()
    inline.backward()
    assert ms(steps(inline), "duration_ns") == [8, 8, 8]


def test_other_threads_are_not_part_of_a_step():
    s = Script()
    for _ in range(4):
        s.train()
        s.spans.append((s.now - 5 * MS, s.now, wire.H2D, wire.F_OTHER_THREAD, 0, 0))
        s.spans.append((s.now - 5 * MS, s.now, wire.FSYNC, wire.F_OTHER_THREAD, 0, 0))
    rows = steps(s)
    assert ms(rows, "h2d_ns") == [0] * 4
    assert ms(rows, "duration_ns") == [10] * 4


@pytest.mark.parametrize("count", [4, 40])
def test_training_on_another_thread(count):
    s = Script(flags=wire.F_OTHER_THREAD)
    s.start()
    for _ in range(count):
        s.train()
    s.spans.insert(0, (s.spans[0][0], s.spans[0][0] + 1, wire.H2D, 0, 0, 0))
    rows = steps(s)
    assert len(rows) == count
    assert ms(rows, "forward_ns") == [3] * count


def test_marks():
    s = Script()
    for _ in range(4):
        for _ in range(2):
            s.train()
        s.span(wire.STEP_MARK, 0)
        s.span(wire.LOGGING, 2)
    rows = steps(s)
    assert ms(rows, "duration_ns") == [20, 22, 22, 24]
    assert [r["kind"] for r in rows] == ["marked"] * 4
    assert ms(rows, "optimizer_ns") == [2] * 4


def test_marks_where_nothing_else_is_seen():
    s = Script()
    for _ in range(4):
        s.idle(5)
        s.span(wire.STEP_MARK, 0)
    rows = steps(s)
    assert ms(rows, "duration_ns") == [5, 5, 5]
    assert ms(rows, "pre_forward_ns") == [None] * 3
    assert ms(rows, "gap_ns") == [5] * 3


def test_checkpoint_with_sync():
    s = Script()
    s.span(wire.FSYNC, 9)  # of something else
    for _ in range(4):
        s.train()
        s.span(wire.CHECKPOINT, 5)
        s.idle(1)
        s.span(wire.FSYNC, 4)
    s.fetch()
    s.forward()
    s.span(wire.FSYNC, 9)  # after a forward: of something else
    s.backward()
    s.step()
    rows = steps(s)
    assert ms(rows, "checkpoint_ns") == [9, 9, 9, 9, 0]
    assert ms(rows, "gap_ns") == [1, 1, 1, 1, 9]


def test_final_checkpoint_belongs_to_the_last_step():
    s = Script()
    for _ in range(3):
        s.train()
    s.stop()
    s.span(wire.CHECKPOINT, 50)
    s.idle(5000)
    s.span(wire.CHECKPOINT, 50)
    rows = steps(s)
    assert ms(rows, "checkpoint_ns") == [None, None, 50]
    assert ms(rows, "duration_ns") == [10, 10, 61]


def test_nested_work_counts_once():
    s = Script()
    for _ in range(3):
        with s.inside(wire.FORWARD, TRAIN):
            s.idle(1)
            s.span(wire.H2D, 2)
            s.idle(1)
        with s.inside(wire.BACKWARD):
            s.span(wire.COLLECTIVE, 3)
            s.idle(1)
        with s.inside(wire.LOGGING):
            s.span(wire.CHECKPOINT, 2)
            s.idle(1)
        s.step()
    rows = steps(s)
    expected = {"h2d": 2, "forward": 2, "collective": 3, "backward": 1, "checkpoint": 2}
    for name, value in expected.items():
        assert ms(rows, f"{name}_ns") == [value] * 3, name


def test_garbage_collector_is_not_exclusive():
    s = Script()
    for _ in range(3):
        with s.inside(wire.FORWARD, TRAIN):
            s.span(wire.GC, 2)
            s.idle(1)
        s.backward()
        s.step()
    rows = steps(s)
    assert ms(rows, "gc_ns") == [2] * 3
    assert ms(rows, "forward_ns") == [3] * 3


def test_captured_steps():
    s = Script()
    for n in range(8):
        if n == 3:
            begin = s.now + 5 * MS
            s.spans.append((begin, begin, wire.CAPTURE, 0, 0, 0))
        s.train()
        if n == 5:
            s.spans.append((begin, s.now, wire.CAPTURE, 0, 0, 0))
    rows = steps(s)
    assert [r["captured"] for r in rows] == [False] * 3 + [True] * 3 + [False] * 2


def test_samples_told_by_the_job():
    s = Script()
    for n in range(3):
        s.fetch(samples=8)
        s.forward()
        s.span(wire.SAMPLES, 0, value=100 + n)
        s.backward()
        s.step()
    assert [r["samples"] for r in steps(s)] == [100, 101, 102]


def test_samples_of_a_smaller_last_batch():
    s = Script()
    for n in range(4):
        s.fetch(samples={0: 8, 3: 5}.get(n))  # told only when it changes
        s.forward()
        s.backward()
        s.step()
    assert [r["samples"] for r in steps(s)] == [8, 8, 8, 5]
    inside = Script()
    for n in range(4):
        with inside.inside(wire.DATA_WAIT, 0, 1):
            inside.idle(1)
            if n in (0, 3):
                inside.span(wire.BATCH, 0, 0, 1, 8 if n == 0 else 5)
            inside.idle(1)
        inside.forward()
        inside.backward()
        inside.step()
    assert [r["samples"] for r in steps(inside)] == [8, 8, 8, 5]


def test_two_loaders_side_by_side():
    s = Script()
    for _ in range(3):
        s.fetch(1, samples=8)
        s.fetch(2, samples=8)
        s.forward(0)
        s.forward(1)
        s.backward()
        s.step()
    rows = steps(s)
    assert [r["samples"] for r in rows] == [8] * 3
    assert [r["micro_batches"] for r in rows] == [1] * 3


def test_worker_batches():
    s = Script()
    with s.inside(wire.DATA_WAIT, 0, 1), s.inside(wire.FETCH, 0, 0, 1500):
        s.idle(2)
        s.span(wire.COLLATE, 1, 0, 0, 900)
    s.span(wire.FETCH, 4, 0, 3, 100)
    (first, second) = StepBuilder(9).feed(s.spans).worker_batches
    start = s.spans[0][0] - 2 * MS
    assert first == {
        "t_ns": start, "pid": 9, "worker": -1, "fetch_ns": 3 * MS, "collate_ns": MS,
        "cpu_ns": 1_500_000,
    }  # fmt: skip
    assert (second["worker"], second["collate_ns"]) == (2, None)


def test_a_step_of_a_million_spans_stays_small():
    builder = StepBuilder(1, 0)
    s = Script()
    s.train()
    rows = builder.feed(s.spans).steps
    for _ in range(40):
        s.spans = []
        for _ in range(1000):
            s.fetch(2)
            s.predict()
        rows += builder.feed(s.spans).steps
        assert len(builder._spans) < 20_000
    s.spans = []
    s.train()
    s.train()
    rows += builder.feed(s.spans).steps + builder.finish().steps
    assert len(rows) == 3
    assert ms(rows, "evaluation_ns") == [None, 200_000, 0]
    assert ms(rows, "duration_ns") == [10, 200_010, 10]


def test_a_wait_whose_cpu_time_was_not_measured_counts_in_proportion() -> None:
    s = Script()
    for measured in (True, True, False, False):
        s.fetch()
        if not measured:
            s.span(wire.DATA_WAIT, 2, wire.F_NO_CPU, 1)
        s.forward()
        s.backward()
        s.step()
    s.spans[-4] = (*s.spans[-4][:3], wire.F_NO_CPU, 1, 0)
    s.spans[-5] = (*s.spans[-5][:3], wire.F_NO_CPU, 1, 0)
    rows = steps(s)
    assert ms(rows, "data_wait_ns") == [2, 2, 4, 4]
    assert ms(rows, "data_wait_cpu_ns") == [1, 1, 2, None]


def test_calls_that_one_forward_stands_for() -> None:
    """A recurrent cell in training is one span of many calls; in inference each is a step."""
    s = Script()
    for _ in range(3):
        s.forward(1, ms=40)
        s.spans[-1] = (*s.spans[-1][:3], TRAIN | wire.F_CALLS, 1, 1000)
        s.backward()
        s.step()
    rows = steps(s)
    assert len(rows) == 3 and ms(rows, "forward_ns") == [40] * 3
    assert [row["samples"] for row in rows] == [None] * 3

    s = Script()
    for _ in range(UNKNOWN_FORWARDS):
        s.predict(1, ms=2, flags=TRAIN | wire.F_CALLS, value=20)
    rows = steps(s)
    assert len(rows) == 20 * UNKNOWN_FORWARDS and set(ms(rows, "forward_ns")) == {0.1}
