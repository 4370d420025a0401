"""Golden cases: each rule fires, is clear, and says when it cannot tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from made_runs import MS, T0, Run, op

from accelprof.profiler.diagnosis import diagnose, view
from accelprof.profiler.diagnosis.model import Undecidable
from accelprof.profiler.diagnosis.rules import RULES
from accelprof.profiler.report import Report

GEMM = op("aten::mm", 40, flops=16e9, bytes=12e6, shapes="[[1024,1024],[1024,1024]]")
PASS = op("aten::mul", 40, flops=1e6, bytes=1.2e9, shapes="[[1000,1000],[1000,1000]]")


def loop(count: int = 60, total: float = 50.0, **phases: Any) -> Run:
    """A plain training loop of 50 ms steps in which every hook was seen."""
    given: dict[str, Any] = {
        "data_wait": 1.0, "iterator": 0.0, "forward": 15.0, "backward": 25.0, "optimizer": 5.0,
        "checkpoint": 0.0, "logging": 0.0, "evaluation": 0.0, "gc": 0.0, "collective": 0.0,
        "h2d": 0.0, "pre_forward": 1.0,
    }  # fmt: skip
    return Run().steps(count, total, **(given | phases))


def waiting(**loader: object) -> Run:
    """A loop that waits for data 40 of 50 ms."""
    run = loop(data_wait=40.0, forward=3.0, backward=4.0, optimizer=1.0)
    return run.fact("loader", id=1, length=100, where="train.py:20", **loader)


def in_process(cpu_ms: float, host: float = 0.5) -> Run:
    run = loop(data_wait=40.0, data_wait_cpu=cpu_ms, forward=3.0, backward=4.0, optimizer=1.0)
    run.fact("loader", id=1, num_workers=0, length=100, where="train.py:20").process()
    return run.batches(59, 39.0, cpu_ms).host(host)


def with_workers(fetch: float, cpu: float, host: float, workers: int = 2, **more: float) -> Run:
    run = waiting(num_workers=workers).process()
    return run.batches(59, fetch, cpu, workers=workers, **more).host(host)


def split_loop(*ops: dict[str, object], gap_ms: float = 0.0, **phases: Any) -> Run:
    return loop(**phases).calibrated().process().ops(ops, gap_ms=gap_ms, window_ms=50)


def small_ops() -> Run:
    return split_loop(
        op("aten::mm", 6, flops=6e4, bytes=6e4, calls=1000, shapes="[[4,8],[8,8]]"),
        op("autograd::engine::evaluate_function: X", 30, flops=0.0, bytes=0.0, calls=2000,
           phase="backward"),
    )  # fmt: skip


def python_gap() -> Run:
    run = split_loop(op("aten::mm", 3, flops=1e9, bytes=1e6), gap_ms=44, gap=40.0, forward=3.0,
                     backward=2.0, optimizer=1.0)  # fmt: skip
    return run.stacks(
        {
            "<module> (/job/train.py:9);metric (/job/train.py:4)": 80,
            "<module> (/job/train.py:9);step (/x/site-packages/torch/nn/m.py:4)": 20,
        }
    )


def narrow(kind: str) -> Run:
    return split_loop(
        op("aten::mm", 44, flops=0.6e9, bytes=1.3e9, calls=12, shapes="[[1,2048],[2048,8192]]"),
        kind=kind,
    )  # fmt: skip


def pauses(**phase: float) -> Run:
    ((name, each),) = phase.items()
    return loop(
        duration=lambda i: 50.0 + (each if i % 4 == 0 else 0.0),
        **{name: lambda i: each if i % 4 == 0 else 0.0},
    ).process()  # fmt: skip


def leak(rate: int) -> Run:
    run = (
        loop(count=600).process().host(0.5, memory_total_bytes=16 << 30, memory_used_bytes=8 << 30)
    )
    return run.add("process_sample", (
        {"t_ns": T0 + i * 500 * MS, "pid": 10, "cpu_cores": 1, "rss_bytes": (400 << 20) + i * rate}
        for i in range(58)
    ))  # fmt: skip


def restarting(iterator: float, persistent: bool = False) -> Run:
    run = loop(
        first_of_epoch=lambda i: i % 20 == 0, data_wait=0.5,
        duration=lambda i: 50.0 + (iterator if i % 20 == 0 else 0.0),
        iterator=lambda i: iterator if i % 20 == 0 else 0.0,
    )  # fmt: skip
    run.fact("loader", id=1, num_workers=2, length=20, persistent=persistent)
    return run.process().batches(60, 10, 10, workers=2)


FIRES: dict[str, Callable[[], Run]] = {
    "loader-in-process": lambda: in_process(39.0),
    "storage": lambda: with_workers(80.0, 8.0, 0.2),
    "too-few-workers": lambda: with_workers(90.0, 85.0, 0.35, workers=1),
    "decode-cpu": lambda: with_workers(90.0, 85.0, 0.99),
    "cpu-oversubscribed": lambda: with_workers(90.0, 25.0, 0.99, workers=8),
    "collate": lambda: with_workers(80.0, 75.0, 0.9, collate_ms=60.0),
    "worker-restart": lambda: restarting(900.0),
    "small-kernels": small_ops,
    "python": python_gap,
    "gc": lambda: loop(gc=20.0).process(),
    "logging-heavy": lambda: pauses(logging=400.0),
    "checkpoint-heavy": lambda: pauses(checkpoint=400.0),
    "evaluation-heavy": lambda: pauses(evaluation=200.0),
    "decode": lambda: narrow("inference"),
    "small-batch": lambda: narrow("train"),
    "unfused-ops": lambda: split_loop(PASS),
    "optimizer": lambda: split_loop(PASS | {"phase": "optimizer"}),
    "precision": lambda: split_loop(GEMM),
    "good": lambda: split_loop(GEMM),
    "memory-growth": lambda: leak(3 << 20),
    "step-outliers": lambda: loop(duration=lambda i: 400.0 if i in (20, 40) else 50.0).process(),
    "epoch-stall": lambda: loop(
        first_of_epoch=lambda i: i % 20 == 0, duration=lambda i: 400.0 if i % 20 == 0 else 50.0
    ).process(),
    "cpu-limit": lambda: loop().process().host(
        0.9, cgroup_cpu_quota_cores=1.5, cgroup_throttled_share=0.3),
    "shm-small": lambda: with_workers(10.0, 9.0, 0.5).host(
        0.5, shm_total_bytes=64 << 20, shm_used_bytes=62 << 20),
    "worker-died": lambda: loop().process().add(
        "event", [{"t_ns": T0, "kind": "worker-died", "data": '{"signal": "SIGBUS"}'}]),
}  # fmt: skip


def ids(report: Report) -> set[str]:
    return {f.id for f in report.findings}


@pytest.mark.parametrize("name", FIRES)
def test_fires(name: str) -> None:
    found = {f.id: f for f in diagnose(FIRES[name](), now_ns=T0).findings}
    assert name in found, sorted(found)
    assert found[name].evidence and found[name].advice
    assert all(e.text for e in found[name].evidence)


def test_a_good_loop_is_clear() -> None:
    run = loop().calibrated().host(0.6).fact("loader", id=1, num_workers=2, length=100)
    run.process().batches(60, 10.0, 9.0, workers=2)
    run.ops([GEMM | {"dtype": "bf16", "flops": 100e9}], window_ms=50)
    run.add("process_sample", (
        {"t_ns": T0 + i * 50 * MS, "pid": 10, "cpu_cores": 1.0, "rss_bytes": 400 << 20}
        for i in range(58)
    ))  # fmt: skip
    assert ids(diagnose(run, now_ns=T0)) == {"good"}


@pytest.mark.parametrize(
    ("run", "rule"),
    [
        (lambda: waiting().process(), "collate time of a batch"),
        (lambda: loop(checkpoint=None).process(), "checkpoints: none was seen so far"),
        (lambda: loop(gc=None).process(), "garbage collector pauses"),
        (lambda: loop(count=5).process(), "20 steady steps"),
    ],
)
def test_cannot_tell(run: Callable[[], Run], rule: str) -> None:
    seen = view.load(run(), T0)
    judged = [listed.judge(seen) for listed in RULES]
    missing = [found.missing for found in judged if isinstance(found, Undecidable)]
    assert rule in missing


def test_a_stall_of_the_captured_step_alone_does_not_hide_the_verdict() -> None:
    """Recorded on a busy machine: two tiny operators waited 7 ms for a core in a step of 50 ms."""
    run = split_loop(
        op("aten::mm", 6, flops=6e4, bytes=6e4, calls=1000, shapes="[[4,8],[8,8]]"),
        op("autograd::engine::evaluate_function: X", 30, flops=0.0, bytes=0.0, calls=2000,
           phase="backward"),
        op("aten::_log_softmax", 80, flops=104.0, bytes=64.0, calls=1, shapes="[[4,2],[],[]]"),
    )  # fmt: skip
    report = diagnose(run, now_ns=T0)
    assert report.verdict.bottleneck == "host-bound"
    assert report.time.shares["other"] < 0.3


def test_a_promise_is_capped_by_what_the_advice_can_do() -> None:
    def limit(run: Run, rule: str) -> float:
        found = diagnose(run, now_ns=T0).findings
        return next(f.speedup_limit for f in found if f.id == rule and f.speedup_limit)

    share = diagnose(narrow("inference"), now_ns=T0).time.shares["memory"]
    assert limit(narrow("inference"), "decode") <= 1 / (1 - share) + 0.01
    fused = diagnose(split_loop(PASS), now_ns=T0).time.shares["memory"]
    assert limit(split_loop(PASS), "unfused-ops") == pytest.approx(1 / (1 - 0.75 * fused), rel=0.01)


def test_enough_workers_is_clear_of_too_few() -> None:
    assert "too-few-workers" not in ids(diagnose(with_workers(30.0, 29.0, 0.97), now_ns=T0))


def test_advice_gives_the_number_that_suffices() -> None:
    """A batch costs 90 ms, the step's own work 10 ms, but the CPU allows one each 40 ms."""
    report = diagnose(with_workers(90.0, 85.0, 0.35, workers=1), now_ns=T0)
    (line,) = next(f.advice for f in report.findings if f.id == "too-few-workers")
    assert "num_workers=6" in line and "train.py:20" in line and "85.0 ms CPU" in line


def test_no_free_core_is_said() -> None:
    report = diagnose(with_workers(90.0, 85.0, 0.99), now_ns=T0)
    (line,) = next(f.advice for f in report.findings if f.id == "decode-cpu")
    assert "would not help" in line and "2 usable cores are busy" in line


def test_steady_memory_is_not_growth() -> None:
    assert "memory-growth" not in ids(diagnose(leak(0), now_ns=T0))


def test_start_up_without_steps_is_not_growth() -> None:
    run = Run().process().host(0.5, memory_total_bytes=16 << 30, memory_used_bytes=8 << 30)
    run.add("process_sample", (
        {"t_ns": T0 + i * 500 * MS, "pid": 10, "cpu_cores": 1, "rss_bytes": (40 + i * 9) << 20}
        for i in range(58)
    ))  # fmt: skip
    assert "memory-growth" not in ids(diagnose(run, now_ns=T0))


def test_growth_is_predicted() -> None:
    report = diagnose(leak(3 << 20), now_ns=T0)
    texts = [e.text for f in report.findings if f.id == "memory-growth" for e in f.evidence]
    assert any("full in about" in t for t in texts)
    assert report.memory.growth_bytes_per_step == pytest.approx(6 * 1.048576e6 * 0.05, rel=0.02)


def test_what_new_workers_do_before_their_first_batch_is_part_of_their_start() -> None:
    run = loop(
        first_of_epoch=lambda i: i % 20 == 0, iterator=0.0,
        data_wait=lambda i: 1900.0 if i % 20 == 0 else 0.5,
        duration=lambda i: 1950.0 if i % 20 == 0 else 50.0,
    )  # fmt: skip
    run.fact("loader", id=1, num_workers=2, length=20, persistent=False)
    found = diagnose(run.process().batches(60, 10, 10, workers=2), now_ns=T0)
    assert found.verdict.cause == "worker-restart"


def test_persistent_workers_do_not_restart() -> None:
    assert "worker-restart" not in ids(diagnose(restarting(900.0, persistent=True), now_ns=T0))


def test_stalled_only_while_running() -> None:
    def run(state: str) -> Run:
        return loop().process() if state == "finished" else Run(state=state, ended_ns=None).steps(
            40, 50.0, forward=20.0, backward=20.0).process()  # fmt: skip

    late = T0 + 600_000 * MS
    assert "stalled" in ids(diagnose(run("running"), now_ns=late))
    assert "stalled" not in ids(diagnose(run("running"), now_ns=T0 + 2_100 * MS))
    assert "stalled" not in ids(diagnose(run("finished"), now_ns=late))


def test_slow_rank_is_named() -> None:
    run = Run()
    start = run.t_ns
    run.steps(40, 50.0, pid=10, forward=20.0, backward=25.0, collective=0.0)
    run.t_ns = start
    run.steps(40, 50.0, pid=11, rank=1, forward=10.0, backward=10.0, collective=25.0)
    report = diagnose(run.process(10, "rank").process(11, "rank", rank=1), now_ns=T0)
    assert "rank-imbalance" in ids(report)
    assert len(report.ranks) == 2 and report.time.ranks == 2
