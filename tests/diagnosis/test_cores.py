"""Who has the cores of a job on a CPU: workers, the training process' threads, or others."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from made_runs import MS, T0, Run, op
from test_rules import GEMM, loop

from accelprof.profiler.diagnosis import diagnose, view
from accelprof.profiler.diagnosis.capacity import making_cpu, without_making


def test_short_lived_workers_are_counted_though_no_sample_saw_them() -> None:
    """57 ms CPU a batch and 24 ms of the training process in each step of 50 ms, on two cores."""
    run = short_lived(60)
    found = diagnose(run, now_ns=T0)
    assert "70 % of the job's CPU" in found.verdict.headline
    [decode] = [f for f in found.findings if f.id == "decode-cpu"]
    assert found.verdict.speedup_limit == decode.speedup_limit == pytest.approx(3.38, rel=0.02)
    assert {w.bottleneck for w in found.phases_over_time} == {"input-bound"}
    seen = view.load(run, T0)
    assert seen.job_cores == pytest.approx(1.62, rel=0.02)
    assert without_making(seen, 0.95) == pytest.approx(2 / 0.48, rel=0.02)


def test_few_steps_do_not_tell_who_takes_the_cores() -> None:
    assert making_cpu(view.load(short_lived(18), T0)) is None
    assert diagnose(short_lived(18), now_ns=T0).verdict.cause != "decode-cpu"


def test_a_step_stretched_by_workers_is_no_rival_of_the_wait_for_them() -> None:
    """Waiting and work change from step to step, half of the time each: noise, but for the CPU."""
    found = diagnose(short_lived(60, data_wait=lambda i: 8.0 if i % 9 < 4 else 40.0), now_ns=T0)
    assert (found.verdict.bottleneck, found.verdict.confidence) == ("input-bound", "medium")
    assert "70 % of the job's CPU time" in found.verdict.headline
    assert found.time.shares["input"] < 0.6


def short_lived(steps: int, **phases: Any) -> Run:
    given: dict[str, Any] = {"data_wait": 2.0, "forward": 20.0, "backward": 20.0, "optimizer": 2.0}
    run = loop(steps, **(given | phases))
    run.calibrated().process().ops([GEMM], window_ms=50)
    run.fact("loader", id=1, num_workers=2, length=100)
    run.batches(steps, 75.0, 57.0, workers=2).host(0.98)
    return run.add("process_sample", (
        {"t_ns": T0 + i * 100 * MS, "pid": 10, "cpu_cores": 0.48, "rss_bytes": 1 << 28}
        for i in range(steps // 2)
    ))  # fmt: skip


def oversubscribed(*, threads: str | None = None, host: float = 0.99, workers: int = 2) -> Run:
    """Two cores; an operator of 45 ms that needs 10 us, beside workers."""
    variables = {"OMP_NUM_THREADS": threads} if threads else {}
    run = Run(environment=json.dumps({"cpus_usable": 2, "variables": variables}))
    run.steps(60, 50.0, data_wait=2.0, forward=25.0, backward=20.0, optimizer=2.0)
    run.calibrated().process().ops([op("aten::mul", 45, flops=1e4, bytes=1e5)], window_ms=50)
    return run.batches(60, 40.0, 20.0, workers=workers).host(host)


@pytest.mark.parametrize("threads", [None, "2"])
def test_threads_and_workers_on_too_few_cores_are_named(threads: str | None) -> None:
    found = diagnose(oversubscribed(threads=threads), now_ns=T0)
    assert found.verdict.bottleneck == "inconclusive"
    assert "2 threads of the training process and 2 workers share 2 cores" in found.verdict.headline
    assert "cpu-oversubscribed" in found.verdict.headline
    [told] = [f for f in found.findings if f.id == "cpu-oversubscribed"]
    assert told.speedup_limit is None
    assert "OMP_NUM_THREADS=1" in told.advice[0] and "--try main_threads=1" in told.advice[0]


@pytest.mark.parametrize("run", [
    lambda: oversubscribed(threads="1"), lambda: oversubscribed(host=0.5),
    lambda: oversubscribed(workers=0),
])  # fmt: skip
def test_threads_that_fit_the_cores_are_not(run: Callable[[], Run]) -> None:
    found = diagnose(run(), now_ns=T0)
    assert "cpu-oversubscribed" not in {f.id for f in found.findings}
    assert "cpu-oversubscribed" not in found.verdict.headline
