"""Beside other load: who waits for a core is not taken for one who waits for data."""

from __future__ import annotations

import json

import pytest
from made_runs import CALIBRATION, MS, T0, Run, op
from test_rules import GEMM, loop, split_loop

from accelprof.profiler.diagnosis import diagnose

WORKER = 101


def states(run: Run, pid: int, running: float, *, cores: float, count: int = 40) -> Run:
    """Samples of a process that is runnable in this share of them."""
    return run.add("process_sample", (
        {"t_ns": T0 + i * 60 * MS, "pid": pid, "cpu_cores": cores, "rss_bytes": 1 << 20,
         "state": "running" if i < running * count else "sleeping"}
        for i in range(count)
    ))  # fmt: skip


def starved_workers(running: float) -> Run:
    """Two workers that get a tenth of a core on a full machine; batches take all of their time."""
    run = loop(data_wait=40.0, forward=3.0, backward=4.0, optimizer=1.0)
    run.fact("loader", id=1, num_workers=2, length=100, where="train.py:20")
    run.process().process(pid=100, role="worker").process(pid=WORKER, role="worker")
    run.batches(60, 96.0, 14.0, workers=2).host(1.0)
    for pid in (100, WORKER):
        states(run, pid, running, cores=0.15)
    return states(run, 10, 0.3, cores=0.2)


@pytest.mark.parametrize(("running", "cause"), [(0.95, "decode-cpu"), (0.2, "storage")])
def test_workers_without_a_core(running: float, cause: str) -> None:
    found = diagnose(starved_workers(running), now_ns=T0)
    assert (found.verdict.bottleneck, found.verdict.cause) == ("input-bound", cause)
    assert ("storage" in {f.id for f in found.findings}) == (cause == "storage")


@pytest.mark.parametrize(("running", "cause"), [(0.97, "loader-in-process"), (0.1, "storage")])
def test_a_generator_without_a_core(running: float, cause: str) -> None:
    run = loop(data_wait=None, iterator=None, forward=3.0, backward=4.0, optimizer=1.0, gap=41.0)
    run.stacks({"<module> (/job/train.py:9);batches (/job/train.py:4)": 80,
                "<module> (/job/train.py:12)": 20})  # fmt: skip
    states(run.process().host(1.0), 10, running, cores=0.08)
    found = diagnose(run, now_ns=T0).verdict
    assert (found.bottleneck, found.cause) == ("input-bound", cause)


def test_evaluation_is_work_that_a_faster_accelerator_shortens() -> None:
    run = loop(evaluation=lambda i: 900.0 if i % 10 == 5 else 0.0,
               duration=lambda i: 950.0 if i % 10 == 5 else 50.0)  # fmt: skip
    ids = {f.id for f in diagnose(run.process(), now_ns=T0).findings}
    assert "evaluation-heavy" in ids and "upgrade-would-not-help" not in ids


def test_small_operators_that_a_busy_machine_makes_slow_are_small_operators() -> None:
    small = op("aten::mm", 40, flops=6e4, bytes=6e4, calls=600, shapes="[[4,8],[8,8]]")
    found = diagnose(split_loop(small), now_ns=T0).verdict  # 67 us each
    assert (found.bottleneck, found.cause) == ("host-bound", "small-kernels")


def test_forwards_before_the_first_optimizer_step_are_no_steps() -> None:
    run = Run().steps(100, 2.0, kind="inference", forward=1.0)
    run.steps(6, 900.0, forward=300.0, backward=400.0, optimizer=9.0)
    found = diagnose(run.process(), now_ns=T0)
    assert found.verdict.bottleneck == "inconclusive" and found.time.steps == 5


def test_a_long_inference_that_ends_with_a_training_step_stays_inference() -> None:
    run = Run().steps(100, 20.0, kind="inference", forward=19.0, data_wait=None)
    run.steps(2, 20.0, forward=5.0, backward=9.0, optimizer=5.0)
    assert diagnose(run.process(), now_ns=T0).time.steps > 90


def test_a_calibration_that_measured_the_other_processes_is_not_used() -> None:
    """Of 8 columns: memory's by any sound ceilings, arithmetic's by those of a busy hour."""
    wide = op("aten::mm", 40, flops=115e6, bytes=34e6, shapes="[[48,8],[8,150000]]")
    busy = CALIBRATION | {"flops": {"fp32": 13e9}, "notes": ["other processes used 1.9 cores"]}
    for one, told in ((wide, "inconclusive"), (GEMM, "compute-bound")):
        run = loop().process().ops([one])
        run.add("meta", [{"key": "calibration", "value": json.dumps(busy)}])
        found = diagnose(run, now_ns=T0).verdict
        assert (found.bottleneck, found.confidence) == (told, "low")
