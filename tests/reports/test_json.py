"""The JSON has the keys of the contract, all of them, and is JSON whatever the job is called."""

import json
import math

import cases
import pytest

from accelprof.profiler.report import SHARES
from accelprof.profiler.reports import FORMATS

TOP = ["schema", "run", "devices", "verdict", "time", "utilisation", "memory", "phases_over_time",
       "findings", "hotspots", "ranks", "advice", "cost", "quality"]  # fmt: skip
KEYS = {
    "run": "id name command cwd host started_at ended_at wall_s exit_status state tags git "
    "environment",
    "verdict": "bottleneck confidence headline cause evidence speedup_limit against",
    "time": "steps ranks step_ms samples_per_s steps_per_s epoch_s shares",
    "memory": "device_peak_bytes device_total_bytes host_peak_bytes growth_bytes_per_step "
    "largest_batch",
    "hotspots": "input ops",
    "cost": "usd_per_hour usd accelerator_s lost_accelerator_s lost_usd energy_j price_source",
    "quality": "hooks events_lost overhead_fraction gaps",
}
ITEMS = {
    "devices": "index name kind catalogue memory_bytes ceilings",
    "phases_over_time": "from_s to_s bottleneck shares",
    "findings": "id severity title evidence advice speedup_limit",
}


@pytest.mark.parametrize("case", cases.CASES)
def test_keys(case: str) -> None:
    body = json.loads(FORMATS["json"](cases.CASES[case]()))
    assert body["schema"] == "accelprof.report/1"
    assert set(TOP) <= set(body)
    for name, keys in KEYS.items():
        assert set(keys.split()) <= set(body[name]), name
    for name, keys in ITEMS.items():
        assert all(set(keys.split()) <= set(item) for item in body[name]), name
    assert set(body["time"]["step_ms"]) == {"p50", "p95", "mean"}
    assert set(body["time"]["shares"]) in (set(), set(SHARES))
    assert all({"text", "metric", "value", "unit"} == set(e) for e in body["verdict"]["evidence"])


def test_the_schema_comes_first() -> None:
    assert FORMATS["json"](cases.empty()).startswith('{\n  "schema"')


def test_not_finite_is_null_and_bytes_are_mended() -> None:
    report = cases.input_bound()
    report.run.wall_s = math.inf
    report.run.name = "bad\udcffname"
    body = json.loads(FORMATS["json"](report))
    assert body["run"]["wall_s"] is None
    assert body["run"]["name"] == "bad?name"


def test_text_is_kept_as_it_is() -> None:
    body = json.loads(FORMATS["json"](cases.hostile()))
    assert body["run"]["name"] == cases.HOSTILE
