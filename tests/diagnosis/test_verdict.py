"""Verdicts from recorded runs: right, as sure as they may be, and honest where they cannot tell."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import pytest
from made_runs import MS, T0, Run, op
from test_rules import FIRES, GEMM, PASS, loop, split_loop

from accelprof.profiler.diagnosis import diagnose, finding_rows, window_rows
from accelprof.profiler.report import SHARES

EXPECTED = {
    "loader-in-process": ("input-bound", "loader-in-process"),
    "storage": ("input-bound", "storage"),
    "too-few-workers": ("input-bound", "too-few-workers"),
    "decode-cpu": ("input-bound", "decode-cpu"),
    "cpu-oversubscribed": ("input-bound", "cpu-oversubscribed"),
    "collate": ("input-bound", "collate"),
    "small-kernels": ("host-bound", "small-kernels"),
    "python": ("host-bound", "python"),
    "checkpoint-heavy": ("checkpoint-bound", None),
    "logging-heavy": ("host-bound", "logging"),
    "decode": ("memory-bound", "decode"),
    "small-batch": ("memory-bound", "small-batch"),
    "unfused-ops": ("memory-bound", "unfused-ops"),
    "optimizer": ("memory-bound", "optimizer"),
    "precision": ("compute-bound", "precision"),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_verdict_and_cause(name: str) -> None:
    report = diagnose(FIRES[name](), now_ns=T0)
    found = report.verdict
    assert (found.bottleneck, found.cause) == EXPECTED[name]
    assert found.confidence in ("high", "medium")
    assert found.headline.endswith(".") and found.evidence and found.against
    assert found.speedup_limit is not None and found.speedup_limit > 1
    assert tuple(report.time.shares) == SHARES and sum(report.time.shares.values()) == 1.0
    assert finding_rows(report) and window_rows(report, T0)


def test_an_empty_run() -> None:
    report = diagnose(Run(), now_ns=T0)
    assert report.verdict.bottleneck == "inconclusive"
    assert report.time.shares == {} and report.quality.hooks == "none"
    assert report.time.steps == 0 and report.time.step_ms.p50 is None


def test_a_run_without_hooks_says_why() -> None:
    run = Run().process(hooks="python -I ignores PYTHONPATH", facts="[]")
    report = diagnose(run, now_ns=T0)
    assert report.quality.hooks == "none"
    assert "python -I ignores PYTHONPATH" in report.verdict.headline


def test_few_steps_are_inconclusive() -> None:
    report = diagnose(loop(count=8, data_wait=45.0, forward=1.0, backward=1.0).process(), now_ns=T0)
    assert report.verdict.bottleneck == "inconclusive"
    assert "7 steady steps" in report.verdict.headline


def test_fifteen_long_steps_alike_are_enough() -> None:
    report = diagnose(
        loop(16, 600.0, data_wait=540.0, forward=20.0, backward=20.0).process(), now_ns=T0
    )
    assert report.verdict.bottleneck == "input-bound"
    assert any("15 steady steps" in text for text in report.verdict.against)


def test_fifteen_steps_that_disagree_are_not() -> None:
    waits = [540.0 if i % 5 == 0 else 0.0 for i in range(16)]
    run = loop(16, 50.0, data_wait=lambda i: waits[i], duration=lambda i: 50.0 + waits[i],
               checkpoint=lambda i: 480.0 if i == 9 else 0.0)  # fmt: skip
    assert diagnose(run.process(), now_ns=T0).verdict.bottleneck == "inconclusive"


def test_without_capture_work_is_not_split() -> None:
    report = diagnose(loop().calibrated().process(), now_ns=T0)
    assert report.verdict.bottleneck == "inconclusive"
    assert "no operators were captured" in report.verdict.headline
    assert report.time.shares["other"] > 0.9


def test_without_ceilings_work_that_depends_on_them_is_not_split() -> None:
    close = op("aten::mm", 40, flops=16e9, bytes=2e9, shapes="[[1024,1024],[1024,1024]]")
    report = diagnose(loop().process().ops([close]), now_ns=T0)
    assert report.verdict.bottleneck == "inconclusive"
    assert "accelprof calibrate" in report.verdict.headline


@pytest.mark.parametrize(("one", "told"), [(GEMM, "compute-bound"), (PASS, "memory-bound")])
def test_without_ceilings_what_any_cpu_would_do_is_told(one: dict[str, Any], told: str) -> None:
    report = diagnose(loop().process().ops([one]), now_ns=T0)
    assert (report.verdict.bottleneck, report.verdict.confidence) == (told, "low")
    assert any("could not be measured" in text for text in report.verdict.against)
    assert report.utilisation["mfu"] is None
    assert [o.efficiency for o in report.hotspots.ops] == [None] * len(report.hotspots.ops)


def test_without_capture_input_is_still_told() -> None:
    found = diagnose(FIRES["loader-in-process"](), now_ns=T0).verdict
    assert (found.bottleneck, found.confidence) == ("input-bound", "high")


def test_compute_against_memory_too_close_is_low() -> None:
    half = split_loop(GEMM | {"time_ns": 23 * MS}, PASS | {"time_ns": 22 * MS})
    found = diagnose(half, now_ns=T0).verdict
    assert found.bottleneck in ("compute-bound", "memory-bound")
    assert found.confidence == "low"


def test_unknown_operators_are_not_guessed() -> None:
    run = split_loop(op("mine::fused", 45, flops=None, bytes=None), op("aten::mm", 1, flops=4e8,
                     bytes=1e6))  # fmt: skip
    found = diagnose(run, now_ns=T0).verdict
    assert found.bottleneck == "inconclusive" and "not known" in found.headline


def test_the_captures_own_cost_is_not_the_jobs() -> None:
    """The captured window took 80 ms of a 50 ms step; the rest is the profiler's."""
    small = op("aten::add", 30, flops=1e3, bytes=1e3, calls=10_000, shapes="[[8],[8]]")
    report = diagnose(split_loop(GEMM | {"time_ns": 45 * MS}, small), now_ns=T0)
    assert report.verdict.bottleneck == "compute-bound"
    assert report.time.shares["compute"] > 0.8


def own_loop(frames: dict[str, int], cores: float | None = None, **phases: Any) -> Run:
    """A loop without a DataLoader that spends 40 of 50 ms before its forward."""
    given = {"data_wait": None, "iterator": None, "pre_forward": 40.0, "forward": 3.0,
             "backward": 4.0, "optimizer": 2.0} | phases  # fmt: skip
    run = loop(**given).calibrated().process().ops([op("aten::mm", 9, flops=3e9, bytes=1e6)],
                                                   gap_ms=40)  # fmt: skip
    if cores is not None:
        run.add("process_sample", ({"t_ns": T0 + i * 100 * MS, "pid": 10, "cpu_cores": cores,
                                    "rss_bytes": 1 << 28} for i in range(25)))  # fmt: skip
    return run.stacks(frames) if frames else run


TORCH = "/v/lib/python3.11/site-packages/torch"
MODEL = f"<module> (/job/train.py:30);forward ({TORCH}/nn/modules/linear.py:5)"
CASES = {
    "generator": ({"<module> (/job/train.py:9);batches (/job/train.py:4)": 80, MODEL: 20},
                  None, "input-bound"),
    "codec": ({"<module> (/job/t.py:9);get (/job/t.py:4);open (/v/lib/python3.11/gzip.py:2)": 80,
               MODEL: 20}, None, "input-bound"),
    "idle": ({"<module> (/job/train.py:9)": 80, MODEL: 20}, 0.2, "input-bound"),
    "busy": ({"<module> (/job/train.py:9);score (/job/train.py:4)": 80, MODEL: 20}, 1.0,
             "host-bound"),
    "logging": ({"<module> (/job/t.py:9);log_metrics (/job/t.py:4)": 80, MODEL: 20}, 1.0,
                "host-bound"),
    "saving": ({"<module> (/job/t.py:9);save_state (/job/t.py:4);dump (/lib/python3/pickle.py:3)":
                80, MODEL: 20}, 1.0, "checkpoint-bound"),
    "blind": ({}, 1.0, "inconclusive"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_loop_without_loader_is_told_by_stacks(name: str) -> None:
    frames, cores, expected = CASES[name]
    found = diagnose(own_loop(frames, cores), now_ns=T0).verdict
    assert found.bottleneck == expected, found.headline
    assert found.confidence != "high" or expected in {"host-bound", "checkpoint-bound"}
    if name == "logging":
        assert found.cause == "logging"
    if name == "generator":
        assert found.cause == "loader-in-process"


def test_a_process_kept_from_the_cores_does_not_wait_for_data() -> None:
    frames, *_ = CASES["idle"]
    assert diagnose(own_loop(frames, 0.2).host(1.0), now_ns=T0).verdict.bottleneck == "host-bound"
    assert diagnose(own_loop(frames, 0.05).host(1.0), now_ns=T0).verdict.bottleneck == "input-bound"


def test_the_garbage_collector_is_not_a_wait_for_data() -> None:
    frames, *_ = CASES["idle"]
    found = diagnose(own_loop(frames, 0.05, gc=39.0), now_ns=T0).verdict
    assert (found.bottleneck, found.cause) == ("host-bound", "python")


def test_blind_time_names_stacks_as_what_is_missing() -> None:
    assert "--stacks" in diagnose(own_loop({}, 1.0), now_ns=T0).verdict.headline


def test_evaluation_does_not_hide_the_training_part() -> None:
    run = loop(data_wait=40.0, data_wait_cpu=39.0, forward=3.0, backward=4.0, optimizer=1.0,
               evaluation=lambda i: 400.0 if i % 5 == 0 else 0.0,
               duration=lambda i: 450.0 if i % 5 == 0 else 50.0)  # fmt: skip
    run.fact("loader", id=1, num_workers=0, length=100).process().batches(59, 39.0, 39.0)
    report = diagnose(run, now_ns=T0)
    assert report.verdict.bottleneck == "input-bound"
    assert report.verdict.headline.startswith("Evaluation takes")


def test_windows_show_a_change() -> None:
    run = loop(count=300, data_wait=lambda i: 45.0 if i < 150 else 1.0,
               forward=lambda i: 1.0 if i < 150 else 20.0,
               backward=lambda i: 1.0 if i < 150 else 20.0, optimizer=1.0)  # fmt: skip
    run.calibrated().process().ops([GEMM])
    windows = diagnose(run, now_ns=T0).phases_over_time
    kinds = [w.bottleneck for w in windows]
    assert kinds[0] == "input-bound" and kinds[-1] == "compute-bound"
    assert all(a.to_s <= b.from_s + 1e-6 for a, b in pairwise(windows))


def cold_then_warm(cold: int = 20, epochs: int = 10) -> Run:
    """The first epoch reads from storage, the others from the page cache."""
    run = loop(count=cold * epochs, first_of_epoch=lambda i: i % cold == 0,
               data_wait=lambda i: 150.0 if i < cold else 1.0,
               duration=lambda i: 200.0 if i < cold else 50.0,
               forward=20.0, backward=25.0, optimizer=2.0)  # fmt: skip
    return run.calibrated().process().ops([GEMM])


def test_a_first_epoch_from_a_cold_cache_is_no_warm_up() -> None:
    report = diagnose(cold_then_warm(), now_ns=T0)
    assert report.time.warmup_steps == 1 and report.phases_over_time[0].bottleneck == "input-bound"


def test_the_headline_tells_a_run_that_changes() -> None:
    found = diagnose(cold_then_warm(100, 10), now_ns=T0).verdict
    assert found.bottleneck == "compute-bound" and found.confidence != "high"
    assert "it changes over the run: input-bound from" in found.headline
    assert "; then compute-bound from" in found.headline


def test_a_run_of_two_halves_has_two_answers() -> None:
    found = diagnose(cold_then_warm(100, 4), now_ns=T0).verdict
    assert found.bottleneck == "inconclusive" and "Each part stands on its own" in found.headline
    assert "input-bound from" in found.headline and "then compute-bound" in found.headline


def test_a_bottleneck_by_turns_is_told_as_such() -> None:
    run = loop(count=1000, data_wait=lambda i: 45.0 if i // 50 % 2 else 1.0,
               forward=lambda i: 1.0 if i // 50 % 2 else 20.0,
               backward=lambda i: 1.0 if i // 50 % 2 else 20.0, optimizer=1.0)  # fmt: skip
    found = diagnose(run.calibrated().process().ops([GEMM]), now_ns=T0).verdict
    assert "by turns" in found.headline or found.bottleneck == "inconclusive"


def test_not_observed_is_not_zero() -> None:
    report = diagnose(loop(checkpoint=None, logging=None).process(), now_ns=T0)
    assert {"checkpoint", "logging"} <= set(report.time.not_observed)
    assert "forward" not in report.time.not_observed


def test_figures() -> None:
    run = FIRES["loader-in-process"]()
    run.add("process_sample", (
        {"t_ns": T0 + i * 500 * MS, "pid": p, "cpu_cores": 0.5, "rss_bytes": 1 << 28}
        for i in range(6) for p in (10, 11)
    ))  # fmt: skip
    report = diagnose(run, now_ns=T0)
    assert report.time.steps == 59 and report.time.warmup_steps == 1
    assert report.time.step_ms.p50 == pytest.approx(50.0)
    assert report.time.samples_per_s == pytest.approx(640.0)
    assert report.time.epoch_s == pytest.approx(5.0)
    assert report.utilisation["cpu_job"] == pytest.approx(0.5)
    assert report.memory.host_peak_bytes == 2 << 28
    assert report.quality.hooks == "full" and report.quality.overhead_fraction is not None
    assert report.cost.usd is None


def test_an_epoch_that_was_seen_is_the_epoch_not_what_the_loader_says() -> None:
    run = loop(40, 25.0).fact("loader", id=1, length=9999, where="train.py:20").process()
    run.steps(40, 25.0, data_wait=1.0, forward=10.0, backward=10.0)
    assert diagnose(run, now_ns=T0).time.epoch_s == pytest.approx(1.0)


def test_ten_thousand_steps_take_less_than_a_second() -> None:
    run = loop(count=10_000).calibrated().host(0.5).process().batches(500, 10, 9)
    run.ops([GEMM, PASS])
    started = time.process_time()  # not wall time: the machine may be busy
    report = diagnose(run, now_ns=T0)
    assert report.time.steps == 9_999
    assert time.process_time() - started < 1.0


def crowded(others: float) -> Run:
    """Memory leads checkpoints 60 to 30 on two cores of which others used some."""
    run = split_loop(PASS, forward=12.0, backward=14.0, optimizer=4.0, pre_forward=0.0,
                     checkpoint=15.0, data_wait=0.0, total=45.0)  # fmt: skip
    run.add("process_sample", (
        {"t_ns": T0 + i * 100 * MS, "pid": 10, "cpu_cores": 1.9 - others, "rss_bytes": 1 << 28}
        for i in range(25)
    ))  # fmt: skip
    return run.host(0.95)


def test_a_crowded_machine_lowers_the_confidence_or_takes_the_answer_away() -> None:
    quiet, some, most = (diagnose(crowded(n), now_ns=T0).verdict for n in (0.1, 0.8, 1.5))
    assert quiet.bottleneck == some.bottleneck == "memory-bound"
    assert (quiet.confidence, some.confidence) == ("high", "medium")
    assert any("0.8 of 2 cores" in text for text in some.against)
    assert most.bottleneck == "inconclusive"
    assert "without them saving checkpoints would probably lead" in most.headline


def test_stalled_operators_are_not_memory() -> None:
    """A call of 45 ms that needs 10 us waited for cores."""
    run = split_loop(op("aten::mul", 45, flops=1e4, bytes=1e5), op("aten::mm", 1, flops=4e8,
                     bytes=1e6))  # fmt: skip
    found = diagnose(run, now_ns=T0).verdict
    assert found.bottleneck == "inconclusive" and "waited for cores" in found.headline


def test_a_starved_loader_is_not_slow_storage() -> None:
    """The training process got a quarter of a core while it decoded: others had the rest."""
    run = loop(data_wait=40.0, data_wait_cpu=10.0, forward=3.0, backward=4.0, optimizer=1.0)
    run.fact("loader", id=1, num_workers=0, length=100).process().batches(59, 39.0, 10.0).host(1.0)
    assert diagnose(run, now_ns=T0).verdict.cause == "loader-in-process"


def beside_workers(batch_cpu: float, host: float = 0.98) -> Run:
    """Two cores: workers decode, the training thread's arithmetic is stretched beside them."""
    run = split_loop(GEMM, data_wait=2.0)
    run.fact("loader", id=1, num_workers=2, length=100)
    run.batches(60, batch_cpu * 1.1, batch_cpu, workers=2).host(host)
    return run.add("process_sample", (
        {"t_ns": T0 + i * 100 * MS, "pid": p, "cpu_cores": cores, "rss_bytes": 1 << 28}
        for i in range(25) for p, cores in ((10, 0.5), (100, 0.75), (101, 0.75))
    ))  # fmt: skip


def test_workers_that_take_the_cores_from_the_training_thread_are_the_input() -> None:
    """A batch costs 75 ms of the 100 ms CPU that a step of 50 ms gets: the wait is 2 ms."""
    found = diagnose(beside_workers(75.0), now_ns=T0).verdict
    assert (found.bottleneck, found.cause) == ("input-bound", "decode-cpu")
    assert found.confidence == "medium" and "75 % of the job's CPU" in found.headline
    assert found.speedup_limit == pytest.approx(4.0, rel=0.02)


def test_workers_beside_free_cores_or_with_little_to_do_are_not() -> None:
    assert diagnose(beside_workers(75.0, host=0.7), now_ns=T0).verdict.bottleneck != "input-bound"
    assert diagnose(beside_workers(30.0), now_ns=T0).verdict.bottleneck == "compute-bound"


def test_the_training_part_is_judged_within_itself() -> None:
    """Evaluation 68 %: of the rest input takes 80 %, which is clear although it is 24 % of all."""
    run = loop(data_wait=40.0, data_wait_cpu=39.0, forward=3.0, backward=4.0, optimizer=1.0,
               evaluation=lambda i: 580.0 if i % 5 == 0 else 0.0,
               duration=lambda i: 630.0 if i % 5 == 0 else 50.0)  # fmt: skip
    run.fact("loader", id=1, num_workers=0, length=100).process().batches(59, 39.0, 39.0)
    found = diagnose(run, now_ns=T0).verdict
    assert (found.bottleneck, found.confidence) == ("input-bound", "medium")
    assert "80 % of it is waiting for data" in found.headline
    assert found.headline.startswith("Evaluation takes 68 %")


def test_nothing_but_evaluation_is_not_judged() -> None:
    run = loop(evaluation=48.0, data_wait=0.5, forward=0.3, backward=0.3, optimizer=0.2).process()
    found = diagnose(run, now_ns=T0).verdict
    assert found.bottleneck == "inconclusive" and "Evaluation takes 95 %" in found.headline


def test_a_loop_that_only_loads_is_input_bound_by_its_waits() -> None:
    run = Run().steps(60, 10, data_wait=9, kind="loading").fact("loader", id=1, num_workers=0)
    report = diagnose(run.process())
    assert report.verdict.bottleneck == "input-bound" and report.time.steps == 59

    busy = diagnose(Run().steps(60, 10, data_wait=1, kind="loading").process())
    assert busy.verdict.bottleneck == "inconclusive"
    assert "No model was called" in busy.verdict.headline


def test_a_pass_over_the_data_before_the_training_is_no_part_of_it() -> None:
    run = Run().steps(60, 10, data_wait=9, kind="loading")
    report = diagnose(run.steps(30, 10, data_wait=1, forward=4, backward=4).process())
    assert report.time.steps == 29 and report.time.shares["input"] < 0.2
