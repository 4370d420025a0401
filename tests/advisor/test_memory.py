"""Memory part by part: predicted peaks and batches against what torch's allocator says."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from accelprof import __file__ as package
from accelprof.profiler import advisor
from accelprof.profiler.advisor import memory
from accelprof.profiler.advisor.advice import Question
from accelprof.profiler.traces.chrome import read_trace
from accelprof.profiler.traces.kineto import analyse
from accelprof.profiler.traces.saved import Activations, activations

from .runs import product, record

GIB = 2.0**30


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Real steps of four models at three batches each."""
    folder = tmp_path_factory.mktemp("truth")
    script = Path(package).parent / "tests" / "advisor" / "memory_truth.py"
    done = subprocess.run(
        [sys.executable, str(script), str(folder)], capture_output=True, text=True, check=True,
        timeout=240,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def needed(model: dict[str, Any]) -> memory.Need:
    found = activations(analyse(read_trace(Path(model["trace"]))))
    assert found is not None
    held = model["parameters"]
    return memory.Need(held, held, 0.0, 0.0, found, 0.0, 0.0, "captured-forward")


def test_one_captured_step_tells_the_peak_of_other_batches(truth: list[dict[str, Any]]) -> None:
    assert len(truth) == 4
    for model in truth:
        made, (first, *_) = needed(model), map(int, model["peaks"])
        for batch, peak in model["peaks"].items():
            predicted = made.at(int(batch) / first)
            assert predicted == pytest.approx(peak + model["parameters"], rel=0.05), model["name"]


def test_the_largest_batch_is_found_within_5_percent(truth: list[dict[str, Any]]) -> None:
    """A device that a batch fills to the last byte takes that batch, and little more or less."""
    for model in truth:
        made, batches = needed(model), [int(b) for b in model["peaks"]]
        if model["name"] == "layers":
            continue  # nearly all parameters: its batch is decided by what is left of nothing
        room = model["peaks"][str(batches[-1])] + model["parameters"]
        found = made.batch_within(batches[0], room)
        assert found == pytest.approx(batches[-1], rel=0.05), model["name"]


def trained(**more: Any) -> memory.Need:
    given = {
        "parameter_bytes": 4 * GIB, "gradient_bytes": 4 * GIB, "optimizer_bytes": 8 * GIB,
        "step_bytes": 0.0, "framework_bytes": GIB, "fragmentation_bytes": 0.0,
        "activations": Activations(20 * GIB, [(20 * GIB, 0.0), (10 * GIB, 4 * GIB)]),
        "method": "captured-forward",
    }  # fmt: skip
    return memory.Need(**(given | more))


def test_gradients_and_activations_do_not_peak_together() -> None:
    assert trained().total_bytes == 33 * GIB  # 4 + 8 + 1 and 20, not 24
    assert trained().at(0.0) == 17 * GIB  # the gradients stay
    assert trained().batch_within(8, 53 * GIB) == 16
    assert trained().batch_within(8, 10 * GIB) == 0


def test_what_fits_is_said_only_as_far_as_it_is_known() -> None:
    made = trained()
    close = int(33.2 * GIB / memory.USABLE)
    assert made.fits(close) is None
    assert replace(made, method="measured-peak").fits(close) is True
    assert made.fits(int(80 * GIB)) is True
    assert made.fits(int(24 * GIB)) is False
    assert made.fits(None) is None


def test_what_would_free_memory(tmp_path: Path) -> None:
    run = record(
        tmp_path / "run.duckdb", [product(4096, 4096, 4096, 40.0, calls=40, dtype="fp32")],
        work_ms=40.0, peak_bytes=30 << 30, parameters=1_000_000_000,
    )  # fmt: skip
    data = json.dumps({"saved_bytes": 9 * GIB, "points": [[9 * GIB, 0.0], [2 * GIB, 4 * GIB]]})
    run.add("event", [{"t_ns": 1, "kind": "activations", "pid": 10, "data": data}])
    found = advisor.advise(advisor.read(run), Question(only=("a100-80", "l4"))).memory
    assert found is not None
    assert found["method"] == "measured-peak"
    names = ("parameters", "gradients", "optimizer", "activations", "framework", "fragmentation")
    assert all(found[f"{name}_bytes"] >= 0 for name in names)
    assert found["total_bytes"] == 30 << 30
    assert found["optimizer_bytes"] == 8_000_000_000
    freed = {row["what"]: row["bytes"] for row in found["would_free"]}
    assert freed["8-bit optimizer"] == pytest.approx(6e9, rel=0.01)
    # Not half of the 9 GiB: then the optimizer's step is the peak, with its gradients.
    assert freed["bf16 autocast"] == pytest.approx(9 * GIB - 8e9, rel=0.01)
    assert freed["ZeRO stage 3 over 8 devices"] > freed["ZeRO stage 2 over 8 devices"] > 6e9


def test_a_peak_that_was_measured_is_the_sum_of_its_parts(tmp_path: Path) -> None:
    """Also where the usual size of a framework would not fit into it."""
    ops = [product(4096, 4096, 4096, 1.0, calls=12)]
    run = record(tmp_path / "run.duckdb", ops, work_ms=12.0, peak_bytes=GIB, parameters=31_500_000)
    found = advisor.advise(advisor.read(run), Question(only=("l4",))).memory
    assert found is not None
    parts = ("parameters", "gradients", "optimizer", "activations", "framework", "fragmentation")
    assert sum(found[f"{name}_bytes"] for name in parts) == pytest.approx(GIB, abs=10)
    assert found["total_bytes"] == GIB
