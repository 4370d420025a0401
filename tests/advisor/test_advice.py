"""Wrong advice is worse than none: what the projection must never say."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from accelprof.profiler import advisor
from accelprof.profiler.accelerators.catalogue import find
from accelprof.profiler.advisor import Question, curves
from accelprof.profiler.advisor.table import render
from accelprof.profiler.errors import UserError

from .runs import operator, product, record, stream


def large() -> list[dict[str, Any]]:
    """A large transformer's step on an A100: 16k tokens, width 4096, near 190 TFLOP/s."""
    return [
        product(16384, 4096, 4096, 278.0, calls=96),
        product(16384, 4096, 16384, 555.0, calls=48),
        product(16384, 16384, 4096, 555.0, calls=48, phase="backward"),
        stream(16384 * 4096, 36.0, calls=200),
    ]


def work_ms(ops: list[dict[str, Any]]) -> float:
    return float(sum(op["time_ns"] for op in ops)) / 1e6


@pytest.fixture
def heavy(tmp_path: Path) -> advisor.Basis:
    ops = large()
    return advisor.read(record(tmp_path / "run.duckdb", ops, work_ms=work_ms(ops)))


def rows(advice: advisor.Advice) -> dict[str, Any]:
    return {row.id: row for row in advice.accelerators}


def test_sparse_peaks_are_never_used() -> None:
    for name, wanted in (("h100-sxm", 989.5e12), ("l4", 121e12), ("rtx-pro-6000", 467.8e12)):
        target = curves.target(find(name), "bf16")
        assert target is not None
        assert target.peak == pytest.approx(wanted)
        assert curves.sustained(target, curves.parameters()) < wanted


def test_an_l40s_is_not_faster_than_an_h100_for_a_large_model(heavy: advisor.Basis) -> None:
    found = rows(advisor.advise(heavy, Question(only=("l40s", "h100-sxm"))))
    assert found["h100-sxm-80gb"].step_ms.high < found["l40s"].step_ms.low


def test_an_rtx_pro_6000_uses_its_tensor_cores_and_is_no_t4(heavy: advisor.Basis) -> None:
    server = find("g4")
    target = curves.target(server, "fp16")
    assert target is not None
    assert target.tensor
    assert target.precision == "fp16"
    found = rows(advisor.advise(heavy, Question(only=("g4", "t4", "a100-sxm"))))
    blackwell, turing = found["rtx-pro-6000-blackwell-server"], found["t4"]
    assert blackwell.step_ms.mid < found["a100-sxm-80gb"].step_ms.mid
    assert turing.step_ms.mid > 5 * blackwell.step_ms.mid
    assert any("bf16 is not native" in item for item in turing.porting)


def test_waiting_for_input_is_not_cured_by_a_faster_accelerator(tmp_path: Path) -> None:
    ops = [product(4096, 4096, 4096, 28.0, calls=40), stream(4096 * 4096, 12.0, calls=60)]
    run = record(tmp_path / "run.duckdb", ops, work_ms=40.0, wait_ms=60.0)
    advice = advisor.advise(advisor.read(run), Question(epochs=1))
    assert advice.verdict == "upgrade-would-not-help"
    assert "60%" in advice.headline
    assert "at most 40%" in advice.headline
    found = rows(advice)
    for row in advice.accelerators:
        if row.step_ms is not None:
            assert row.step_ms.low >= 60.0
    h100, now = found["h100-sxm-80gb"], found["a100-sxm-80gb"]
    assert now.current
    assert now.step_ms.mid == pytest.approx(100.0)
    assert h100.step_ms.mid < now.step_ms.mid
    assert h100.usd_run > now.usd_run


def test_workers_that_are_too_few_set_the_pace_anywhere(tmp_path: Path) -> None:
    ops = [product(4096, 4096, 4096, 40.0, calls=55)]
    run = record(tmp_path / "run.duckdb", ops, work_ms=40.0, wait_ms=60.0, workers=4)
    advice = advisor.advise(advisor.read(run), Question())
    assert rows(advice)["h100-sxm-80gb"].step_ms.mid == pytest.approx(100.0, rel=0.02)
    assert "does the same for" in advice.headline
    assert "No accelerator helps more" in advice.headline or "would not help" in advice.headline


def test_unknown_prices_rank_by_time_only(heavy: advisor.Basis, tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text(
        '[[offer]]\nprovider = "own"\nsku = "box"\naccelerator = "l4"\ncount = 1\nsource = "mine"\n'
    )
    advice = advisor.advise(heavy, Question(prices=prices, only=("l4", "h100-sxm")))
    for row in advice.accelerators:
        assert row.usd_per_hour is None
        assert row.usd_run is None
        assert row.rank_cost is None
        assert row.rank_time is not None
    assert "no price is known" in advice.headline


def test_nothing_is_projected_without_operators(tmp_path: Path) -> None:
    run = record(tmp_path / "run.duckdb", [], work_ms=100.0)
    advice = advisor.advise(advisor.read(run), Question())
    assert all(row.step_ms is None and row.rank_time is None for row in advice.accelerators)
    assert advice.basis["evidence"] == "none"
    assert "Nothing can be projected" in advice.headline


def test_a_trace_of_allocations_alone_is_no_evidence(tmp_path: Path) -> None:
    only = [operator("aten::empty", [[4096]], 0.01, flops=0.0, moved=0.0)]
    run = record(tmp_path / "run.duckdb", only, work_ms=100.0, card=None, peak_bytes=None)
    advice = advisor.advise(advisor.read(run), Question())
    assert advice.basis["evidence"] == "none"
    assert "Nothing can be projected" in render(advice)


def test_a_capture_on_a_cpu_gives_a_wide_range_and_says_so(
    heavy: advisor.Basis, tmp_path: Path
) -> None:
    run = record(tmp_path / "cpu.duckdb", large(), work_ms=90_000.0, card=None, peak_bytes=None)
    wide = advisor.advise(advisor.read(run), Question(only=("h100-sxm",)))
    narrow = advisor.advise(heavy, Question(only=("h100-sxm",)))
    assert "on a CPU" in wide.headline
    assert wide.notes
    assert _width(wide) > 2.5
    assert _width(narrow) < 1.5


def _width(advice: advisor.Advice) -> float:
    step = advice.accelerators[0].step_ms
    assert step is not None
    return step.high / step.low


def test_the_device_of_the_run_keeps_its_measured_time(heavy: advisor.Basis) -> None:
    row = advisor.advise(heavy, Question(only=("a100-sxm",))).accelerators[0]
    assert heavy.step_s is not None
    assert row.step_ms is not None
    assert row.step_ms.mid == pytest.approx(heavy.step_s * 1e3)


def test_a_measured_efficiency_is_kept(tmp_path: Path) -> None:
    """The same products at half the speed stay about half as fast elsewhere."""
    good = [product(8192, 4096, 4096, 30.0, calls=20)]
    slow = [product(8192, 4096, 4096, 60.0, calls=20)]
    times = []
    for name, ops in (("good", good), ("slow", slow)):
        run = record(tmp_path / f"{name}.duckdb", ops, work_ms=work_ms(ops))
        row = advisor.advise(advisor.read(run), Question(only=("h100-sxm",))).accelerators[0]
        assert row.step_ms is not None
        times.append(row.step_ms.mid)
    assert times[1] / times[0] == pytest.approx(2.0, rel=0.1)


def test_decode_follows_the_bandwidth_not_the_flops(tmp_path: Path) -> None:
    """One token: matrix-vector products. An H200 has an H100's FLOPs and 1.43 times its memory."""
    ops = [product(1, 4096, 4096, 2.2, calls=96), product(1, 4096, 14336, 5.6, calls=96)]
    run = record(
        tmp_path / "run.duckdb", ops, work_ms=work_ms(ops), card="h100-sxm-80gb", peak_bytes=None
    )
    row = advisor.advise(advisor.read(run), Question(only=("h200-sxm",))).accelerators[0]
    assert row.bottleneck == "memory-bound"
    assert row.speedup is not None
    assert 1.1 < row.speedup < 1.45


def test_what_does_not_fit_is_not_recommended(tmp_path: Path) -> None:
    ops = large()
    run = record(tmp_path / "run.duckdb", ops, work_ms=work_ms(ops), peak_bytes=60 << 30)
    found = rows(advisor.advise(advisor.read(run), Question(only=("l4", "h100-sxm"))))
    assert found["l4"].fits is False
    assert found["l4"].rank_time is None
    assert found["h100-sxm-80gb"].fits is True


def test_unknown_memory_is_null(tmp_path: Path) -> None:
    run = record(tmp_path / "run.duckdb", [], work_ms=10.0, peak_bytes=None)
    row = advisor.advise(advisor.read(run), Question(only=("l4",))).accelerators[0]
    assert row.fits is None
    assert row.memory_needed_bytes is None


def test_more_devices_exchange_gradients(heavy: advisor.Basis) -> None:
    one, eight = (
        advisor.advise(heavy, Question(only=("l40s",), count=n)).accelerators[0] for n in (1, 8)
    )
    assert one.step_ms is not None
    assert eight.step_ms is not None
    assert eight.step_ms.mid > one.step_ms.mid
    rates = (one.samples_per_s or 0.0, eight.samples_per_s or 0.0)
    assert rates[0] < rates[1] < 8 * rates[0]
    assert eight.usd_per_hour == pytest.approx(8 * (one.usd_per_hour or 0.0))


def test_budget_and_deadline_rule_out(heavy: advisor.Basis) -> None:
    asked = Question(only=("t4", "h100-sxm"), steps=10_000, deadline_s=8 * 3600)
    found = rows(advisor.advise(heavy, asked))
    assert found["t4"].within_deadline is False
    assert found["t4"].rank_time is None
    assert found["h100-sxm-80gb"].within_deadline is True


def test_a_lower_precision_is_faster_where_it_exists(tmp_path: Path) -> None:
    ops = [product(8192, 4096, 4096, 320.0, calls=20, dtype="fp32")]
    basis = advisor.read(record(tmp_path / "run.duckdb", ops, work_ms=320.0))
    plain, half = (
        advisor.advise(basis, Question(only=("h100-sxm",), precision=p)).accelerators[0]
        for p in (None, "bf16")
    )
    assert plain.step_ms is not None
    assert half.step_ms is not None
    assert half.step_ms.mid < 0.4 * plain.step_ms.mid


def test_questions_that_cannot_be_answered_are_refused(heavy: advisor.Basis) -> None:
    with pytest.raises(UserError, match="exclude each other"):
        advisor.advise(heavy, Question(epochs=1, steps=5))
    with pytest.raises(UserError, match="nearest"):
        advisor.advise(heavy, Question(only=("h1000",)))


def test_the_keys_of_the_contract_are_there_and_it_is_quick(heavy: advisor.Basis) -> None:
    began = time.process_time()
    advice = advisor.advise(heavy, Question(epochs=3))
    assert time.process_time() - began < 1.0
    found = json.loads(msgspec.json.encode(advice))
    assert found["schema"] == "accelprof.advise/1"
    assert {"run", "evidence", "precision", "batch"} <= set(found["basis"])
    keys = {
        "id", "count", "step_ms", "samples_per_s", "bottleneck", "fits", "memory_needed_bytes",
        "largest_batch", "usd_per_hour", "usd_per_epoch", "run_s", "usd_run", "energy_kwh",
        "rank_time", "rank_cost", "porting",
    }  # fmt: skip
    assert all(keys <= set(row) for row in found["accelerators"])
    assert set(found["accelerators"][0]["step_ms"]) == {"low", "mid", "high"}


def casts() -> list[dict[str, Any]]:
    """What a captured step is full of: casts to fp64 that move nothing, small sums in fp64."""
    return [
        operator("aten::_to_copy", [[]], 0.01, flops=0.0, moved=0.0, dtype="fp64"),
        operator("aten::sum", [[4096]], 0.01, flops=4096.0, moved=4096 * 8.0, dtype="fp64"),
    ]


def test_a_tpu_is_projected_though_a_few_operators_are_fp64(tmp_path: Path) -> None:
    ops = large() + casts()
    run = record(tmp_path / "run.duckdb", ops, work_ms=work_ms(ops))
    found = rows(advisor.advise(advisor.read(run), Question(only=("v5e", "v6e", "a10g"))))
    for row in found.values():
        assert row.step_ms is not None, row.id
        assert row.step_ms.low < row.step_ms.mid < row.step_ms.high
        assert not row.notes
    assert found["tpu-v6e"].step_ms.high < found["tpu-v5e"].step_ms.low


def test_a_row_that_cannot_be_projected_says_why(tmp_path: Path) -> None:
    ops = [*large(), product(4096, 4096, 4096, 30.0, dtype="fp64")]
    run = record(tmp_path / "run.duckdb", ops, work_ms=work_ms(ops))
    advice = advisor.advise(advisor.read(run), Question(only=("v6e", "h100-sxm")))
    found = rows(advice)
    assert found["h100-sxm-80gb"].step_ms is not None
    assert found["tpu-v6e"].step_ms is None
    assert "fp64" in found["tpu-v6e"].notes[0]
    assert "tpu-v6e: not projected" in render(advice)


def test_work_that_could_not_be_divided_moves_all_the_same(tmp_path: Path) -> None:
    """A CPU whose ceilings nobody measured: its work is no time that stays on an accelerator."""
    run = record(tmp_path / "cpu.duckdb", large(), work_ms=90_000.0, card=None, peak_bytes=None)
    run.db.execute("DELETE FROM meta WHERE key = 'calibration'")
    advice = advisor.advise(advisor.read(run), Question(only=("h100-sxm",)))
    step = advice.accelerators[0].step_ms
    assert step is not None
    assert step.mid < 9_000.0


def test_launches_show_where_a_device_decodes_faster_than_they_come(tmp_path: Path) -> None:
    ops = [
        product(1, 4096, 4096, 9.0, calls=400, dtype="fp16"),
        operator(
            "aten::scaled_dot_product_attention", [[1, 32, 1, 128], [1, 8, 512, 128]] * 2, 1.0,
            calls=32, dtype="fp16", flops=2.7e8, moved=6.7e7,
        ),
    ]  # fmt: skip
    run = record(
        tmp_path / "run.duckdb", ops, work_ms=14.0, host_ms=4.0, card="h100-pcie-80gb",
        trains=False, parameters=6_700_000_000, samples=1, peak_bytes=None,
    )  # fmt: skip
    found = rows(advisor.advise(advisor.read(run), Question(only=("h200-sxm",), context=512)))
    row = found["h200-sxm-141gb"]
    assert row.serving.bound == "host"
    assert row.serving.ms_per_token == pytest.approx(row.step_ms.mid, rel=0.01)
    assert row.serving.ms_per_token > 12.0
