"""Real hooks in real torch loops, read back: as many steps as the author of a loop would say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from span_script import check

from accelprof import hooks
from accelprof.hooks import wire
from accelprof.profiler.spool import SpoolReader
from accelprof.profiler.steps import StepBuilder

STEPS = {
    "plain": 12, "accumulation": 3, "inline": 10, "gan": 6, "lbfgs": 6, "evaluation": 12,
    "inference": 6, "decode": 20, "by_hand": 6, "failing": 5, "marked": 3, "workers": 12,
    "checkpoint": 6,
}  # fmt: skip


@pytest.fixture(scope="module")
def loops(tmp_path_factory) -> dict[str, tuple[list[dict], list[dict]]]:
    """By loop: its steps, and the batches of its loader."""
    spool = tmp_path_factory.mktemp("spool")
    inject = Path(hooks.__file__).parent / "inject"
    environment = {
        **os.environ,
        wire.ENV_SPOOL: str(spool),
        wire.ENV_CAPTURE: "off",
        "PYTHONPATH": str(inject),
    }
    script = Path(__file__).parent / "loops.py"
    subprocess.run([sys.executable, str(script)], env=environment, check=True, timeout=120)
    names: dict[int, str] = {}
    builders: dict[str, StepBuilder] = {}
    steps: dict[str, list] = {}
    batches: dict[str, list] = {}
    reader = SpoolReader(spool, alive=lambda pid: False)
    while news := reader.poll():
        for one in news:
            for fact in one.facts:
                if fact["k"] == wire.FACT_PHASE:
                    names[one.pid] = fact["name"]
            builder = builders.setdefault(one.process, StepBuilder(one.pid, 0))
            built = builder.feed(one.spans)
            steps.setdefault(one.process, []).extend(built.steps)
            batches.setdefault(one.process, []).extend(built.worker_batches)
            assert one.lost == 0
    for process, builder in builders.items():
        steps[process] += builder.finish().steps
    named = {p: names.get(int(p.partition("-")[0]), p) for p in builders}
    return {named[p]: (check(steps[p]), batches[p]) for p in builders}


@pytest.mark.parametrize("name", STEPS)
def test_count(loops, name):
    assert len(loops[name][0]) == STEPS[name]


def test_kinds(loops):
    kinds = {name: {row["kind"] for row in loops[name][0]} for name in STEPS}
    other = {"inference": "inference", "decode": "inference", "marked": "marked"}
    assert kinds == {name: {other.get(name, "train")} for name in STEPS}


def test_samples(loops):
    samples = {name: [row["samples"] for row in loops[name][0]] for name in STEPS}
    assert samples["plain"] == [9, 9, 9, 9, 9, 3] * 2
    assert samples["accumulation"] == [16] * 3
    assert samples["gan"] == samples["lbfgs"] == samples["inference"] == [8] * 6
    assert [row["micro_batches"] for row in loops["accumulation"][0]] == [2] * 3


def test_epochs(loops):
    for name in ("plain", "workers"):
        first = [row["first_of_epoch"] for row in loops[name][0]]
        assert first == [True, *[False] * 5] * 2
    assert all(row["iterator_ns"] for row in loops["workers"][0] if row["first_of_epoch"])


def test_evaluation(loops):
    evaluated = [row["step"] for row in loops["evaluation"][0] if row["evaluation_ns"]]
    assert evaluated == [0, 3, 6, 9, 11]
    for name in STEPS.keys() - {"evaluation"}:
        assert {row["evaluation_ns"] for row in loops[name][0]} == {None}, name


def test_checkpoints(loops):
    assert all(row["checkpoint_ns"] for row in loops["checkpoint"][0])


def test_batches(loops):
    assert 1 <= len(loops["plain"][1]) <= 12  # quick batches are sampled
    assert {batch["worker"] for batch in loops["plain"][1]} == {-1}
    assert all(batch["collate_ns"] for batch in loops["plain"][1])
    made = [batch["worker"] for _, batches in loops.values() for batch in batches]
    assert {0, 1} <= set(made)


def test_most_of_the_time_is_covered(loops):
    """What no span covers is little: the loop's own Python."""
    rows = [row for row in loops["lbfgs"][0][1:]]
    gap = sum(row["gap_ns"] + row["pre_forward_ns"] for row in rows)
    assert gap < 0.2 * sum(row["duration_ns"] for row in rows)
