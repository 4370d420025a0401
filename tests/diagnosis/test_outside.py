"""A job that no hook saw is judged by its stacks: low confidence, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from accelprof.profiler.diagnosis import diagnose

from .made_runs import T0, Run

READ = "main (/job/train.py:9);read_batch (/job/train.py:4)"
MODEL = "main (/job/train.py:9);forward (/job/model.py:7)"
IMPORT = "main (/job/train.py:1);_find (<frozen importlib._bootstrap>:5)"


def run(windows: list[dict[str, int]], **device: Any) -> Run:
    """A run of process 10 with a second's stacks in each window."""
    made = Run(settings='{"attached_pid": 10}').process(10, hooks="attached while running")
    for at, stacks in enumerate(windows):
        made.add("stack", [
            {"t_ns": T0 + (at + 1) * 10**9, "pid": 10, "thread": '"MainThread"', "frames": frames,
             "samples": n} for frames, n in stacks.items()
        ])  # fmt: skip
    if device:
        made.add("device", [{"device": 0, "name": "GPU", "kind": "gpu"}])
        made.add("device_sample", [{"t_ns": T0 + 10**9, "device": 0} | device])
    return made


@pytest.mark.parametrize(
    ("windows", "bottleneck", "words"),
    [
        ([{READ: 40, MODEL: 10}] * 8, "input-bound", "waits for data in 80 %"),
        ([{READ: 5, MODEL: 45}] * 8, "inconclusive", "Not input-bound"),
        ([{READ: 40, MODEL: 10}] * 3, "inconclusive", "let it record longer"),
        ([{READ: 30, MODEL: 20}, {READ: 12, MODEL: 38}] * 4, "inconclusive", "nothing leads"),
        ([{READ: 50}] * 2 + [{READ: 2, MODEL: 48}] * 8, "inconclusive", "Not input-bound"),
        ([{IMPORT: 500, READ: 40, MODEL: 10}] * 8, "input-bound", "waits for data in 80 %"),
    ],
)
def test_what_stacks_can_and_cannot_tell(
    windows: list[dict[str, int]], bottleneck: str, words: str
) -> None:
    report = diagnose(run(windows))
    assert report.verdict.bottleneck == bottleneck
    assert report.verdict.confidence == "low"
    assert words in report.verdict.headline
    assert sum(report.time.shares.values()) == pytest.approx(1.0)
    assert report.quality.hooks == "none" and report.run.attached_pid == 10
    assert any("not of measured steps" in note for note in report.quality.notes)


def test_a_wait_beside_a_busy_device_is_no_bottleneck() -> None:
    report = diagnose(run([{READ: 40, MODEL: 10}] * 8, busy_share=0.9))
    assert report.verdict.bottleneck == "inconclusive"
    assert "the device is busy 90 %" in report.verdict.headline
    idle = diagnose(run([{READ: 40, MODEL: 10}] * 8, busy_share=0.1))
    assert idle.verdict.bottleneck == "input-bound"
