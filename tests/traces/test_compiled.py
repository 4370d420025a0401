"""Captures of a model under torch.compile: kernels that have no event of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from accelprof.profiler.diagnosis import roofline
from accelprof.profiler.diagnosis.model import Ceilings, OpRow
from accelprof.profiler.traces import chrome, flops, kineto

CEILINGS = Ceilings({"fp32": 400e9}, 30e9, {"add": 23e9}, 1e-6, "calibrated")
GRAPH = "## Call CompiledFxGraph fz2fmr3ymd42zihfm47qxrmm2ru3flmiou4epwyyxyn7c33yim4e ##"


def event(name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    cat = "user_annotation" if name == GRAPH else "cpu_op"
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur,
            "args": args}  # fmt: skip


def rows(path: Path, *events: dict[str, Any]) -> dict[str, dict[str, Any]]:
    path.write_text(json.dumps({"traceEvents": list(events)}))
    window = kineto.analyse(chrome.read_trace(path))
    found = kineto.op_rows(window, capture=0, pid=1, steps=1)
    return {row["name"]: row for row in found}


def compiled(path: Path) -> dict[str, dict[str, Any]]:
    """As torch 2.13 records it on a CPU: 100 us of product, two fused kernels, views between."""
    product = {"Input Dims": [[256, 256], [256, 256]], "Input type": ["float", "float"]}
    return rows(
        path,
        event("Torch-Compiled Region: 0/0", 0, 1100),
        event(GRAPH, 50, 1000),
        event("aten::empty_strided", 55, 1),
        event("aten::as_strided", 60, 1),
        event("aten::mm", 461, 100, **product),
        event("aten::as_strided", 565, 1),
        event("aten::as_strided", 1045, 1),
    )


def test_what_runs_between_the_events_of_a_compiled_graph_are_its_kernels(tmp_path: Path) -> None:
    found = compiled(tmp_path / "t.json")
    fused = found[kineto.FUSED_ROW]
    assert fused["calls"] == 2 and fused["bytes"] is None
    assert fused["time_ns"] == pytest.approx(400_000 + 479_000)
    assert found[kineto.COMPILED_ROW]["time_ns"] == pytest.approx(17_000, abs=2_000)
    assert found["aten::mm"]["flops"] == 2 * 256**3
    assert found[kineto.GAP_ROW]["time_ns"] < 2_000  # none of it is Python


def test_fused_kernels_count_as_memory_of_unknown_size(tmp_path: Path) -> None:
    found = [
        OpRow(0, 1, 0, r["name"], r["phase"], r["shapes"], r["dtype"], r["calls"], r["flops"],
              r["bytes"], r["time_ns"])
        for r in compiled(tmp_path / "t.json").values()
    ]  # fmt: skip
    split = roofline.split(found, CEILINGS, 1.1e-3)
    assert split is not None and split.memory > 0.7
    assert split.covered < 0.3, "no confident verdict rests on kernels without sizes"
    assert split.memory_ops["fused"] > 0.9


def test_triton_kernels_tell_what_they_read_and_write() -> None:
    dims, types = [[4096, 1024], [4096, 1024]], ["float", "float"]
    found = flops.work("triton_poi_fused_add_gelu_0", dims, types, [], None)
    assert found is not None and found.bytes == 2 * 4096 * 1024 * 4
    assert found.flops == 2 * 4096 * 1024
    assert flops.work("triton_tem_fused_mm_0", dims, types, [], None) is None
