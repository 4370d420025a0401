"""Language models: tokens a second against published figures, memory, and what is said of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from accelprof.profiler import advisor
from accelprof.profiler.accelerators.catalogue import find
from accelprof.profiler.advisor import language
from accelprof.profiler.advisor.advice import Question
from accelprof.profiler.advisor.decoder import Shape
from accelprof.profiler.advisor.table import render

from .runs import operator, product, record

# Llama 3 8B: 32 layers, 8 heads of keys of 128; weights without the embedding table, fp16
LLAMA = language.Model(
    Shape(32, 8, 32, 128, 2, 1, 1, 512, "fp16"), 8_030_000_000, 15.0e9, 32 * 9
)  # fmt: skip
# llama.cpp, fp16, batch 1, 512 tokens: XiongjieDai/GPU-Benchmarks-on-LLM-Inference, 2024-05
PUBLISHED = {"rtx-3090": 47.4, "rtx-4090": 54.84, "rtx-a6000": 40.71, "l40s": 43.69, "a40": 34.26}


@pytest.mark.parametrize(("card", "tokens_per_s"), PUBLISHED.items())
def test_decode_against_published_figures(card: str, tokens_per_s: float) -> None:
    served = LLAMA.serving(find(card), 1, 512, None)
    assert served.tokens_per_s == pytest.approx(tokens_per_s, rel=0.1)
    assert served.bound == "memory"


def decode(folder: Path, card: str, ms: float, *, batch: int = 1, context: int = 2048) -> Any:
    """One generated token of a 7-billion-parameter decoder; a step is a token."""
    shapes = [[batch, 32, 1, 128], [batch, 32, context, 128], [batch, 32, context, 128]]
    ops = [
        product(batch, 4096, 12288, ms * 0.25, calls=32, dtype="fp16"),
        product(batch, 4096, 4096, ms * 0.08, calls=32, dtype="fp16"),
        product(batch, 4096, 11008, ms * 0.44, calls=64, dtype="fp16"),
        product(batch, 11008, 4096, ms * 0.22, calls=32, dtype="fp16"),
        operator(
            "aten::scaled_dot_product_attention", shapes, ms * 0.01, calls=32, dtype="fp16",
            flops=4.0 * batch * 32 * 128 * context * 32,
            moved=2.0 * batch * 2 * 32 * 128 * context * 32,
        ),
    ]  # fmt: skip
    run = record(
        folder / "run.duckdb", ops, work_ms=ms, card=card, parameters=6_740_000_000,
        peak_bytes=None, samples=batch, trains=False,
    )  # fmt: skip
    run.db.execute("UPDATE process SET facts = ?", [json.dumps([
        {"k": "root", "id": 1, "name": "Llama", "parameters": 6_740_000_000,
         "bytes": 13_480_000_000},
    ])])  # fmt: skip
    return advisor.read(run)


def test_decode_is_read_off_the_attention(tmp_path: Path) -> None:
    seen = decode(tmp_path, "h100-sxm-80gb", 6.0, batch=4).attention
    assert (seen.layers, seen.kv_heads, seen.context, seen.batch) == (32, 32, 2048, 4)
    assert seen.decodes
    assert seen.kv_bytes == 2 * 32 * 32 * 128 * 2


def test_an_h200_decodes_by_its_bandwidth(tmp_path: Path) -> None:
    """As many FLOPs as an H100, 1.43 times the bandwidth, 1.76 times the memory."""
    basis = decode(tmp_path, "h100-sxm-80gb", 5.6)
    advice = advisor.advise(basis, Question(only=("h100-sxm", "h200-sxm"), context=2048))
    served = {row.id: row.serving for row in advice.accelerators}
    h100, h200 = served["h100-sxm-80gb"], served["h200-sxm-141gb"]
    assert h100.ms_per_token == pytest.approx(5.6, rel=0.01)  # as measured
    assert 1.3 < h200.tokens_per_s / h100.tokens_per_s < 1.44
    assert h200.largest_batch > 1.9 * h100.largest_batch
    assert h200.tokens_per_s_largest > h100.tokens_per_s_largest > 10 * h100.tokens_per_s
    assert h200.prefill_s == pytest.approx(h100.prefill_s, rel=0.05)
    text = render(advice)
    assert "ms/token" in text
    assert "context 2048" in text


def test_what_does_not_fit_generates_nothing(tmp_path: Path) -> None:
    basis = decode(tmp_path, "h100-sxm-80gb", 5.6)
    advice = advisor.advise(basis, Question(only=("t4",), batch=64, context=4096))
    served = advice.accelerators[0].serving
    assert served.largest_batch < 64
    assert served.tokens_per_s is None


def test_training_speaks_of_tokens_and_utilisation(tmp_path: Path) -> None:
    shapes = [[8, 16, 1024, 64]] * 3
    ops = [
        product(8192, 1024, 4096, 60.0, calls=48),
        operator("aten::scaled_dot_product_attention", shapes, 20.0, calls=24, flops=2e11,
                 moved=3e8),
    ]  # fmt: skip
    run = record(tmp_path / "run.duckdb", ops, work_ms=80.0, samples=8)
    row = advisor.advise(advisor.read(run), Question(only=("a100-80",))).accelerators[0]
    assert row.tokens_per_s == pytest.approx(8 * 1024 / 0.08, rel=0.01)
    assert row.mfu == pytest.approx(
        (2.0 * 8192 * 1024 * 4096 * 48 + 2e11) / 0.08 / 312e12, rel=0.01
    )
    assert row.serving is None
