"""`accelprof import`: traces made here; and real ones of others where a folder of them is given."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelprof.profiler.traces import intervals
from accelprof.profiler.traces.intervals import intersect, length, subtract, union

# A folder with *.json.gz and truth.toml, whose figures were taken from the events
REAL = Path(os.environ.get("ACCELPROF_TEST_TRACES", "/nonexistent"))
TRUTH = tomllib.loads((REAL / "truth.toml").read_text()) if (REAL / "truth.toml").exists() else {}


def run_import(
    *paths: Path, home: Path, options: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "accelprof", "import", "--json", *options, *map(str, paths)],
        capture_output=True, text=True, env=os.environ | {"ACCELPROF_HOME": str(home)}, check=False,
    )  # fmt: skip


def event(name: str, cat: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    device = cat in ("kernel", "gpu_memcpy")
    return {"ph": "X", "name": name, "cat": cat, "pid": 0 if device else 7, "tid": 7, "ts": ts,
            "dur": dur, "args": args}  # fmt: skip


def gpu_trace(steps: int = 6, wait: float = 60e3) -> dict[str, Any]:
    """Steps of 100 ms: a wait for data, then kernels for 30 ms, then the host alone."""
    events = []
    for i in range(steps):
        at = 1e6 + i * 100e3
        kernel = {"device": 0, "stream": 7, "correlation": i}
        events += [
            event(f"ProfilerStep#{i}", "user_annotation", at, 100e3),
            event("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                  "user_annotation", at, wait),
            event("aten::mm", "cpu_op", at + wait, 50, **{
                "Input Dims": [[4096, 4096], [4096, 4096]], "Input type": ["float", "float"]}),
            event("cudaLaunchKernel", "cuda_runtime", at + wait + 10, 10, correlation=i),
            event("sgemm", "kernel", at + wait, 30e3, **kernel),
            event("ncclKernel_AllReduce", "kernel", at + wait + 25e3, 10e3, device=0, stream=9),
        ]  # fmt: skip
    return {"traceEvents": events, "baseTimeNanoseconds": 1_790_000_000_000_000_000,
            "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}]}  # fmt: skip


def test_device_time_is_divided_without_overlap(tmp_path: Path) -> None:
    path = tmp_path / "job.json.gz"
    path.write_bytes(gzip.compress(json.dumps(gpu_trace()).encode()))
    done = run_import(path, home=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    shares = report["time"]["shares"]
    assert report["verdict"]["bottleneck"] == "input-bound"
    assert report["verdict"]["cause"] == "loader-in-process"
    assert shares["input"] == pytest.approx(0.6, abs=0.01)
    assert shares["compute"] == pytest.approx(0.3, abs=0.01)
    assert shares["communication"] == pytest.approx(0.05, abs=0.01)
    assert shares["host"] == pytest.approx(0.05, abs=0.01)
    assert report["time"]["steps"] == 6


def test_too_few_steps_and_no_marks_say_so(tmp_path: Path) -> None:
    (tmp_path / "two.json").write_text(json.dumps(gpu_trace(2)))
    plain = gpu_trace()
    plain["traceEvents"] = [e for e in plain["traceEvents"] if "Profiler" not in e["name"]]
    (tmp_path / "none.json").write_text(json.dumps(plain))
    done = run_import(tmp_path / "two.json", tmp_path / "none.json", home=tmp_path)
    two, none = (json.loads(line) for line in done.stdout.splitlines())
    assert two["verdict"]["bottleneck"] == none["verdict"]["bottleneck"] == "inconclusive"
    assert "2 step marks" in two["verdict"]["headline"]
    assert "no step marks" in none["verdict"]["headline"]


@pytest.mark.parametrize("content", ["", "hello", "{}", '{"traceEvents": "x"}'])
def test_bad_input_is_one_line(content: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(content)
    done = run_import(tmp_path / "bad.json", tmp_path / "absent.json", home=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", sorted(TRUTH))
def test_real_trace(name: str, tmp_path: Path) -> None:
    truth = TRUTH[name]
    done = run_import(REAL / f"{name}.json.gz", home=tmp_path)
    report = json.loads(done.stdout)
    verdict, shares = report["verdict"], report["time"]["shares"]
    assert verdict["bottleneck"] in truth.get("bottleneck", [verdict["bottleneck"]])
    assert verdict["bottleneck"] not in truth.get("not", [])
    assert verdict["cause"] in truth.get("cause", [verdict["cause"]])
    if "input_share" in truth:
        assert truth["input_share"][0] <= shares["input"] <= truth["input_share"][1]
    if "step_ms" in truth:
        assert report["time"]["step_ms"]["mean"] == pytest.approx(truth["step_ms"], rel=0.02)


spans = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100))).map(
    lambda found: union([(float(a), float(b)) for a, b in found])
)


def points(found: intervals.Spans) -> set[int]:
    return {i for start, end in found for i in range(int(start), int(end))}


@given(spans, spans)
def test_intervals_are_sets(a: intervals.Spans, b: intervals.Spans) -> None:
    assert points(intersect(a, b)) == points(a) & points(b)
    assert points(subtract(a, b)) == points(a) - points(b)
    assert length(subtract(a, b)) + length(intersect(a, b)) == length(a)
