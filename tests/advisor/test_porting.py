"""The list of work that another kind of accelerator needs."""

from __future__ import annotations

import json
from pathlib import Path

from accelprof.profiler import advisor
from accelprof.profiler.advisor.advice import Question

from .runs import operator, product, record


def test_the_work_by_weight(tmp_path: Path) -> None:
    ops = [
        product(4096, 4096, 4096, 30.0, calls=40, dtype="fp16"),
        operator("spmm::mul_cuda", [[4096, 4096]], 5.0, flops=1e9, moved=1e8),
        operator("aten::nonzero", [[4096]], 1.0, flops=0.0, moved=1e6),
    ]
    run = record(tmp_path / "run.duckdb", ops, work_ms=40.0)
    (facts,) = run.rows("SELECT facts FROM process")[0]
    told = {"k": "libraries", "names": ["flash_attn", "numpy", "triton"], "operators": ["spmm"]}
    run.db.execute("UPDATE process SET facts = ?", [json.dumps([*json.loads(facts), told])])
    advice = advisor.advise(advisor.read(run), Question(only=("v6e", "mi300x", "h100-sxm")))
    rows = {row.id: row for row in advice.accelerators}
    tpu, amd = rows["tpu-v6e"], rows["mi300x"]
    assert tpu.porting_weight == "large"
    assert "spmm::mul_cuda" in tpu.porting[0]
    assert [item.split(":")[0] for item in tpu.porting] == sorted(
        (item.split(":")[0] for item in tpu.porting), key=["large", "medium", "small"].index
    )
    text = "\n".join(tpu.porting)
    assert "flash_attn" in text
    assert "nonzero" in text
    assert "numpy" not in text
    assert amd.porting_weight == "medium"
    assert "nonzero" not in "\n".join(amd.porting)
    assert rows["h100-sxm-80gb"].porting_weight == "none"


def test_without_a_capture_nothing_is_known(tmp_path: Path) -> None:
    run = record(tmp_path / "run.duckdb", [], work_ms=40.0)
    row = advisor.advise(advisor.read(run), Question(only=("v6e",))).accelerators[0]
    assert row.porting == []
    assert row.porting_weight is None
