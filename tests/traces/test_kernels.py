"""Work that shapes do not tell: what operators and kernels are by their names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from accelprof.profiler.diagnosis.model import Ceilings, OpRow
from accelprof.profiler.diagnosis.roofline import split
from accelprof.profiler.traces.chrome import read_trace
from accelprof.profiler.traces.kernels import by_name, short_name
from accelprof.profiler.traces.kineto import analyse, op_rows

PASSES = (
    "aten::add_", "aten::_foreach_addcdiv_", "aten::cat", "aten::upsample_bilinear2d",
    "fbgemm::split_embedding_codegen_lookup_rowwise_adagrad_function",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)",
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2>(float*)",
    "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 128, true, 1>(float)",
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::Adam>(int)",
    "triton_poi_fused_add_gelu_0",
)  # fmt: skip
PRODUCTS = (
    "aten::cudnn_convolution", "flash_attn::_flash_attn_forward", "volta_sgemm_128x32_nt",
    "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int)",
    "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2>(int)",
    "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16",
    "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>)",
)  # fmt: skip
NEITHER = (
    "CompiledFunction", "my::operator", "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
)  # fmt: skip


@pytest.mark.parametrize(
    ("names", "kind"), [(PASSES, "pass"), (PRODUCTS, "product"), (NEITHER, None)]
)
def test_kinds(names: tuple[str, ...], kind: str | None) -> None:
    assert {name: by_name(name) for name in names} == dict.fromkeys(names, kind)


def test_a_kernel_is_called_by_its_function() -> None:
    assert short_name(PASSES[5]) == "at::native::vectorized_elementwise_kernel"
    assert short_name(PASSES[6]) == "at::native::CatArrayBatchedCopy"
    assert short_name("volta_sgemm_128x32_nt") == "volta_sgemm_128x32_nt"


def event(cat: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    tid = 7 if cat == "kernel" else 1
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur,
            "args": args}  # fmt: skip


def launched(op: str, at: float, kernels: dict[str, float]) -> list[dict[str, Any]]:
    found = [event("cpu_op", op, at, 50)]
    for number, (name, dur) in enumerate(kernels.items()):
        ident = int(at) * 10 + number
        found.append(event("cuda_runtime", "cudaLaunchKernel", at + number, 1, correlation=ident))
        found.append(event("kernel", name, at + 100, dur, correlation=ident))
    return found


def rows(folder: Path, *, backward: bool) -> list[OpRow]:
    """A compiled graph with two kernels of its own, and an operator that is in no table."""
    node = "CompiledFunctionBackward" if backward else "CompiledFunction"
    events = launched(node, 0, {"volta_sgemm_128x32_nt": 600, PASSES[5]: 200})
    events += launched("my::operator", 2000, {"ncclKernel_AllReduce(int)": 300})
    path = folder / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    found = op_rows(analyse(read_trace(path)), capture=0, pid=1, steps=1)
    if backward:
        for row in found:
            row["phase"] = "backward" if row["phase"] == "forward" else row["phase"]
    return [OpRow(**{k: row[k] for k in OpRow._fields if k in row}) for row in found]


def test_kernels_of_an_operator_without_known_work_are_booked_one_by_one(tmp_path: Path) -> None:
    found = {row.name: (row.calls, row.time_ns) for row in rows(tmp_path, backward=True)}
    assert found["volta_sgemm_128x32_nt"] == (1, 600_000)
    assert found["at::native::vectorized_elementwise_kernel"] == (1, 200_000)
    assert found["CompiledFunctionBackward"] == (1, 0)


@pytest.mark.parametrize("backward", [True, False])
def test_products_are_arithmetic_in_training_alone(tmp_path: Path, backward: bool) -> None:
    ceilings = Ceilings({"fp32": 1e13}, 1e12, {}, 5e-6, "datasheet")
    found = split(rows(tmp_path, backward=backward), ceilings, 1.1e-3)
    assert found is not None
    assert found.memory == pytest.approx(200 / 1100, abs=0.02)
    assert found.compute == pytest.approx(600 / 1100 if backward else 0.0, abs=0.02)
    assert found.unknown == pytest.approx(300 / 1100 if backward else 900 / 1100, abs=0.02)
    assert found.covered == 0.0
    assert found.named == pytest.approx(800 / 1100 if backward else 200 / 1100, abs=0.02)
