"""The rules of `test_rules.FIRES` where nothing is wrong, and where they cannot tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from golden import judged
from made_runs import Run, op
from test_rules import (
    FIRES,
    GEMM,
    PASS,
    leak,
    loop,
    pauses,
    restarting,
    small_ops,
    split_loop,
    waiting,
    with_workers,
)

from accelprof.profiler.diagnosis.model import Clear, Undecidable

Make = Callable[[], Run]
FULL_BATCH = op("aten::mm", 44, flops=16e9, bytes=12e6, shapes="[[512,2048],[2048,8192]]")


def uncaptured(**phases: Any) -> Run:
    """A step of which no operator is known: copies to a CPU "device" are the host's work."""
    return loop(**phases).calibrated().process()


def busy_host(**fields: Any) -> Run:
    return loop().process().host(0.9, **fields)


# finding: (clear, cannot tell); None where the rule needs nothing that can be missing
CASES: dict[str, tuple[Make, Make | None]] = {
    "loader-in-process": (lambda: with_workers(80.0, 75.0, 0.9), waiting().process),
    "storage": (lambda: with_workers(80.0, 75.0, 0.9), lambda: with_workers(80.0, None, 0.2)),
    "too-few-workers": (
        lambda: with_workers(30.0, 29.0, 0.5), lambda: waiting(num_workers=2).process()),
    "decode-cpu": (
        lambda: with_workers(80.0, 8.0, 0.2), lambda: with_workers(80.0, None, 0.99)),
    "cpu-oversubscribed": (
        lambda: with_workers(90.0, 25.0, 0.5, workers=8),
        lambda: waiting(num_workers=8).process().batches(59, 90.0, 25.0, workers=8)),
    "collate": (lambda: with_workers(80.0, 75.0, 0.9, collate_ms=5.0), waiting().process),
    "worker-restart": (
        lambda: restarting(5.0), lambda: loop(iterator=None).process()),
    "small-kernels": (lambda: split_loop(GEMM), lambda: uncaptured(h2d=40.0)),
    "python": (small_ops, lambda: uncaptured(h2d=40.0)),
    "gc": (lambda: loop(gc=0.5).process(), lambda: loop(gc=None).process()),
    "logging-heavy": (lambda: pauses(logging=2.0), lambda: loop(logging=None).process()),
    "checkpoint-heavy": (lambda: pauses(checkpoint=2.0), lambda: loop(checkpoint=None).process()),
    "evaluation-heavy": (lambda: pauses(evaluation=2.0), lambda: loop(evaluation=None).process()),
    "decode": (lambda: split_loop(FULL_BATCH, kind="inference"), None),
    "small-batch": (lambda: split_loop(FULL_BATCH), None),
    "unfused-ops": (lambda: split_loop(GEMM), None),
    "optimizer": (lambda: split_loop(PASS), None),
    "precision": (lambda: split_loop(GEMM | {"dtype": "bf16"}), None),
    "good": (lambda: split_loop(GEMM | {"flops": 1e9}), None),
    "memory-growth": (lambda: leak(0), lambda: loop().process()),
    "step-outliers": (lambda: loop().process(), lambda: loop(count=5).process()),
    "epoch-stall": (lambda: loop(first_of_epoch=lambda i: i % 20 == 0).process(), Run().process),
    "cpu-limit": (
        lambda: busy_host(cgroup_cpu_quota_cores=1.5, cgroup_throttled_share=0.0),
        lambda: busy_host(cgroup_cpu_quota_cores=1.5)),
    "shm-small": (
        lambda: with_workers(10.0, 9.0, 0.5).host(
            0.5, shm_total_bytes=8 << 30, shm_used_bytes=1 << 20),
        lambda: with_workers(10.0, 9.0, 0.5)),
    "worker-died": (
        lambda: loop().process(), lambda: Run().fact("loader", num_workers=2).process()),
}  # fmt: skip


def test_every_rule_that_fires_is_here() -> None:
    assert CASES.keys() == FIRES.keys()


@pytest.mark.parametrize("name", CASES)
def test_clear(name: str) -> None:
    assert isinstance(judged(name, FIRES[name](), CASES[name][0]()), Clear)


@pytest.mark.parametrize("name", [name for name, (_, unsure) in CASES.items() if unsure])
def test_cannot_tell(name: str) -> None:
    unsure = CASES[name][1]
    assert unsure is not None
    found = judged(name, FIRES[name](), unsure())
    assert isinstance(found, Undecidable) and found.missing
