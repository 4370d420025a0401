"""What a larger batch brings, and which accelerators keep a budget and a deadline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from accelprof.profiler import advisor
from accelprof.profiler.advisor import Question
from accelprof.profiler.advisor.growth import grown
from accelprof.profiler.advisor.operators import Operator
from accelprof.profiler.advisor.table import render

from .runs import product, record, stream


def basis(path: Path, **more: Any) -> advisor.Basis:
    ops = [
        product(256, 1024, 1024, 1.0, calls=20), stream(256 * 1024, 0.5, calls=20),
        product(1024, 256, 1024, 2.0, calls=20, phase="backward"),
    ]  # fmt: skip
    told = {"work_ms": 4.0, "samples": 256, "peak_bytes": 2 << 30, "parameters": 21_000_000}
    return advisor.read(record(path / "run.duckdb", ops, **(told | more)))


def at_largest(found: advisor.Basis) -> float:
    row = advisor.advise(found, Question(only=("a100-80gb",))).accelerators[0]
    assert row.samples_per_s_largest is not None
    assert row.samples_per_s is not None
    assert row.largest_batch is not None
    assert row.largest_batch > 10 * 256
    return row.samples_per_s_largest / row.samples_per_s


def test_a_larger_batch_brings_most_where_the_host_sets_the_pace(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    busy = at_largest(basis(tmp_path))
    launches = at_largest(basis(tmp_path / "b", work_ms=16.0, host_ms=12.0))
    assert 1.0 < busy < launches


def test_a_larger_batch_brings_nothing_where_workers_set_the_pace(tmp_path: Path) -> None:
    gain = at_largest(basis(tmp_path, wait_ms=8.0, workers=4))
    assert gain == pytest.approx(1.0, rel=0.02)


def test_a_larger_batch_reads_the_weights_once() -> None:
    row = product(8, 4096, 4096, 1.0)
    op = Operator.of(
        row["name"], row["shapes"], "bf16", calls=1, flops=row["flops"], bytes=row["bytes"]
    )
    wide, weights = grown(op, 16.0), 2.0 * 4096 * 4096
    assert wide.flops == 16.0 * row["flops"]
    assert wide.bytes == pytest.approx(weights + 16.0 * (row["bytes"] - weights))
    assert wide.width == 128.0


def told(found: advisor.Basis, **asked: Any) -> str:
    only = ("a100-80gb", "h100", "l4", "t4")
    return render(advisor.advise(found, Question(steps=1e6, only=only, **asked))).splitlines()[1]


def test_what_keeps_the_budget_and_the_deadline_is_named(tmp_path: Path) -> None:
    found = basis(tmp_path)
    assert told(found) == ""
    within = told(found, budget_usd=1000.0, deadline_s=2 * 86400.0)
    assert within.startswith("Within $1,000 and 48.0 h: ")
    assert "a100-sxm-80gb ($" in within
    assert told(found, budget_usd=0.01).startswith("Within $0.01: none; the nearest: ")


def test_a_budget_without_prices_is_not_answered(tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text(
        '[[offer]]\nprovider = "own"\nsku = "box"\naccelerator = "l4"\ncount = 1\nsource = "mine"\n'
    )
    assert told(basis(tmp_path), budget_usd=5.0, prices=prices) == (
        "Within $5: not known, no price is."
    )
