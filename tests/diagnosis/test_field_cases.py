"""Slow jobs as people reported them, on devices that no CPU imitates: made from their figures."""

from __future__ import annotations

from made_runs import T0
from test_rules import in_process, loop, with_workers

from accelprof.profiler.diagnosis import diagnose
from accelprof.profiler.report import Report


def finding_lines(report: Report, id: str) -> str:
    return " ".join(line for f in report.findings if f.id == id for line in f.advice)


def test_a_small_host_that_starves_its_tpu() -> None:
    """pytorch/xla#2383: two cores decode for a TPU that is hardly used."""
    run = with_workers(90.0, 85.0, 0.99).gpu(0.02, name="TPU v3", catalogue=None)
    run.db.execute("UPDATE device SET kind = 'tpu'")
    report = diagnose(run, now_ns=T0)
    assert report.verdict.bottleneck == "input-bound" and report.verdict.cause == "decode-cpu"
    assert "more workers would not help" in finding_lines(report, "decode-cpu")


def test_an_infeed_that_stalls_now_and_then_is_judged_by_its_sum() -> None:
    """tensorflow#43744: most steps wait for nothing, some for long; the median wait is 0."""
    run = loop(
        data_wait=lambda i: 80.0 if i % 4 == 3 else 0.1, forward=4.0, backward=6.0,
        duration=lambda i: 91.0 if i % 4 == 3 else 11.0,
    ).gpu(0.3)  # fmt: skip
    run.fact("loader", id=1, num_workers=4, length=100)
    report = diagnose(run.process().batches(59, 120, 110, workers=4).host(0.5), now_ns=T0)
    assert report.verdict.bottleneck == "input-bound"


def test_decoding_in_turn_with_the_training_is_input_in_process() -> None:
    """NVIDIA/DALI#5764: the device rests while batches are made, and the other way round."""
    report = diagnose(in_process(39.0).gpu(0.2), now_ns=T0)
    assert report.verdict.bottleneck == "input-bound"
    assert report.verdict.cause == "loader-in-process"
