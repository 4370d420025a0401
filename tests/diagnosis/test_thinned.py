"""Long runs: what is said of all steps from the few that were read."""

from __future__ import annotations

import pytest

from accelprof.profiler.diagnosis import diagnose, thinned
from accelprof.profiler.diagnosis.evened import evened
from accelprof.profiler.diagnosis.view import load

from .made_runs import T0, Run


def long_run(count: int, ranks: int = 1) -> Run:
    """Steps of 10 ms, in each thousandth a checkpoint of 1 s: 9 % of the time."""
    run = Run().process(10)
    run.db.execute(
        "INSERT INTO step (pid, rank, step, t_ns, duration_ns, kind, data_wait_ns, forward_ns, "
        "backward_ns, optimizer_ns, checkpoint_ns, samples, micro_batches, first_of_epoch, "
        "captured) SELECT 10 + r, r, i, ? + i * 11000000, 10000000 + (i % 7) * 1000 + c, 'train', "
        "6000000, 1000000, 1000000, 500000, c, 32, 1, i % 10000 = 0, false FROM range(?) u(r), "
        "(SELECT i, CASE WHEN i % 1000 = 999 THEN 1000000000 ELSE 0 END AS c FROM range(?) t(i))",
        [T0, ranks, count],
    )
    return run


def test_counts_shares_and_times_are_of_all_steps() -> None:
    report = diagnose(long_run(60_000), now_ns=T0)
    assert (report.time.steps_total, report.time.steps) == (60_000, 59_999)
    total = 59_999 * 10.003 + 60 * 1000
    assert report.time.step_ms.mean == pytest.approx(total / 59_999, rel=1e-3)
    assert report.time.step_ms.p50 == pytest.approx(10.003)
    assert report.time.shares["checkpoint"] == pytest.approx(60_000 / total, abs=0.002)
    assert report.time.shares["input"] == pytest.approx(59_999 * 6 / total, abs=0.002)
    assert report.time.samples_per_s == pytest.approx(32 * 59_999 / total * 1e3, rel=1e-3)
    assert report.time.epoch_s == pytest.approx(110.0)
    assert report.verdict.bottleneck == "input-bound"
    assert any("steps were looked at, evenly spread" in note for note in report.quality.notes)


def test_few_steps_are_all_read_and_many_processes_keep_the_same_numbers() -> None:
    assert not thinned.read(long_run(5_000)).thinned
    taken = thinned.read(long_run(20_000, ranks=4))
    assert taken.thinned and set(taken.counts.values()) == {20_000}
    numbers = {pid: [step.step for step in steps] for pid, steps in taken.steps.items()}
    assert all(found == numbers[10] for found in numbers.values())
    assert 300 <= len(numbers[10]) < 3_000
    assert numbers[10][0] == 0 and numbers[10][-1] == 19_999


def test_means_of_a_run_that_is_rolled_up_in_part() -> None:
    """Ten minutes at a row in 10 s, idle, then one at 10 Hz, busy: a tenth of the time is busy."""
    run = Run()
    rows = [{"t_ns": T0 + i * 10**10, "cpu_share": 0.0} for i in range(60)]
    rows += [{"t_ns": T0 + 600 * 10**9 + i * 10**8, "cpu_share": 1.0} for i in range(600)]
    run.add("host_sample", rows)
    sql = "SELECT avg(cpu_share) FROM host_sample WHERE t_ns >= ?"
    assert evened(run).rows(sql, (T0,)) == run.rows(sql, (T0,))
    run.add("meta", [{"key": "rollup", "value": "{}"}])
    ((mean,),) = evened(run).rows(sql, (T0,))
    assert mean == pytest.approx(6 / 66, abs=0.01)


def test_workers_of_each_epoch_are_not_counted_as_so_many_at_once() -> None:
    run = long_run(200)
    for epoch in range(5):
        for worker in range(2):
            pid = 100 + epoch * 2 + worker
            run.process(pid, "worker", ppid=10, worker=worker, rank=None)
            run.add("worker_batch", [
                {"t_ns": T0 + (epoch * 40 + i) * 11_000_000, "pid": pid, "worker": worker,
                 "fetch_ns": 5_000_000, "cpu_ns": 4_000_000} for i in range(1, 30)
            ])  # fmt: skip
    seen = load(run, T0)
    assert seen.workers is not None and seen.workers.count == 2


@pytest.mark.parametrize(
    ("told", "found"), [(60, 480), (59, 480), (54, 480), (53, None), (0, None)]
)
def test_samples_where_some_steps_do_not_tell_theirs(told: int, found: int | None) -> None:
    """A loop that fetches one batch ahead fetches none in its last step."""
    assert thinned.all_samples(8 * told, told, 60) == found
