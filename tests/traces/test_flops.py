"""FLOPs against torch's own counter, and captures read back from the real C++ profiler."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from accelprof.profiler.traces import chrome, flops, kineto

# Runs a case under torch's FLOP counter, then under the raw profiler that the hooks use too.
JOB = """
import json, sys, torch
from torch import nn
from torch.autograd import ProfilerConfig, ProfilerState, ProfilerActivity
from torch.autograd import _enable_profiler, _disable_profiler, _prepare_profiler
from torch.utils.flop_counter import FlopCounterMode

def case_linear():
    model, x = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)), torch.randn(32, 64)
    return lambda: model(x).sum().backward()
def case_linear3d():
    model, x = nn.Linear(64, 128, bias=False), torch.randn(4, 16, 64)
    return lambda: model(x).sum().backward()
def case_conv():
    model, x = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3)), \\
        torch.randn(4, 3, 32, 32)
    return lambda: model(x).sum().backward()
def case_transposed():
    model, x = nn.ConvTranspose2d(4, 6, 3, 2), torch.randn(2, 4, 9, 9)
    return lambda: model(x).sum().backward()
def case_bmm():
    a, b = torch.randn(5, 16, 32, requires_grad=True), torch.randn(5, 32, 8, requires_grad=True)
    return lambda: torch.baddbmm(torch.zeros(5, 16, 8), a, b).sum().backward()
def case_attention():
    q, k, v = (torch.randn(2, 4, 32, 16, requires_grad=True) for _ in range(3))
    return lambda: nn.functional.scaled_dot_product_attention(q, k, v).sum().backward()
def case_encoder():
    model, x = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True), torch.randn(2, 8, 32)
    return lambda: model(x).sum().backward()
def case_matvec():
    w, x = torch.randn(64, 32), torch.randn(1, 32)
    return lambda: (x @ w.t()).argmax()

def capture(call, path):
    config = ProfilerConfig(ProfilerState.KINETO, True, False, False, False, False,
                            torch._C._profiler._ExperimentalConfig(), "")
    _prepare_profiler(config, {ProfilerActivity.CPU})
    _enable_profiler(config, {ProfilerActivity.CPU})
    call()
    _disable_profiler().save(path)

counted = {}
for name, make in [(k[5:], v) for k, v in list(globals().items()) if k.startswith("case_")]:
    call = make()
    call()
    with FlopCounterMode(display=False) as counter:
        call()
    counted[name] = counter.get_total_flops()
    capture(call, f"{sys.argv[1]}/{name}.json")
print(json.dumps(counted))
"""
CASES = ("linear", "linear3d", "conv", "transposed", "bmm", "matvec")
ALL_CASES = (*CASES, "attention", "encoder")


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("captures")
    done = subprocess.run(
        [sys.executable, "-c", JOB, str(folder)], capture_output=True, text=True, check=True
    )
    return folder, json.loads(done.stdout.splitlines()[-1])


def rows_of(path: Path) -> list[dict[str, object]]:
    return kineto.op_rows(kineto.analyse(chrome.read_trace(path)), capture=0, pid=1, steps=1)


@pytest.mark.parametrize("name", CASES)
def test_matmul_flops_are_torchs(name: str, captured: tuple[Path, dict[str, int]]) -> None:
    folder, counted = captured
    assert gemm_flops(folder / f"{name}.json") == pytest.approx(counted[name], rel=0.02)


def gemm_flops(path: Path) -> float:
    return sum(float(str(r["flops"])) for r in rows_of(path) if r["flops"] and _kind(r) == "gemm")


def test_attention_flops(captured: tuple[Path, dict[str, int]]) -> None:
    """torch's counter skips attention on the CPU: two products forward, five backward."""
    product = 2 * (2 * 4) * 32 * 32 * 16
    assert gemm_flops(captured[0] / "attention.json") == 7 * product


def test_grouped_convolution_flops() -> None:
    """torch's counter does not divide the weight's gradient by the groups; the work does."""
    dims = [[4, 16, 14, 14], [4, 8, 16, 16], [16, 2, 3, 3]] + [[]] * 8
    types = ["float"] * 3 + ["ScalarList"] * 4 + ["Scalar", "ScalarList", "Scalar", "ScalarList"]
    concrete = ["", "", "", "[16]", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "4",
                "[True, True, True]"]  # fmt: skip
    found = flops.work("aten::convolution_backward", dims, types, concrete, None)
    assert found is not None and found.flops == 2 * 2 * 4 * 16 * 14 * 14 * 2 * 9


def _kind(row: dict[str, object]) -> str | None:
    dims = json.loads(str(row["shapes"]))
    found = flops.work(str(row["name"]), dims, ["float" if d else "" for d in dims], [], None)
    return found.kind if found else None


@pytest.mark.parametrize("name", ALL_CASES)
def test_self_times_do_not_exceed_the_window(
    name: str, captured: tuple[Path, dict[str, int]]
) -> None:
    rows = rows_of(captured[0] / f"{name}.json")
    window = int(rows[0]["window_ns"])  # type: ignore[call-overload]
    total = sum(int(r["time_ns"]) for r in rows)  # type: ignore[call-overload]
    assert 0 < total <= window * 1.001 + 1000


def test_backward_and_forward_are_told_apart(captured: tuple[Path, dict[str, int]]) -> None:
    rows = rows_of(captured[0] / "linear.json")
    phases = {r["phase"] for r in rows if r["name"] in ("aten::mm", "aten::addmm")}
    assert phases == {"forward", "backward"}


def test_a_truncated_or_packed_trace_is_read(
    captured: tuple[Path, dict[str, int]], tmp_path: Path
) -> None:
    text = (captured[0] / "encoder.json").read_bytes()
    whole = chrome.read_trace(captured[0] / "encoder.json")
    (tmp_path / "cut.json").write_bytes(text[: len(text) * 2 // 3])
    (tmp_path / "packed.json.gz").write_bytes(gzip.compress(text))
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(text)[: len(gzip.compress(text)) // 2])
    cut = chrome.read_trace(tmp_path / "cut.json")
    assert cut.truncated and 0 < len(cut.events) < len(whole.events)
    assert len(chrome.read_trace(tmp_path / "packed.json.gz").events) == len(whole.events)
    assert chrome.read_trace(tmp_path / "cut.json.gz").truncated


@pytest.mark.parametrize("content", [b"", b"not json", b"\x1f\x8b\x08rubbish", b"{}x", b"[1"])
def test_rubbish_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(chrome.BadTrace):
        chrome.read_trace(path)


WORK = [
    ("aten::add", [[8, 4], [1, 4]], ["float", "float"], [], 32, 128 + 16 + 128),
    ("aten::add_", [[8, 4], [8, 4]], ["float", "float"], [], 32, 128 * 3),
    ("aten::mul", [[8, 4], []], ["c10::BFloat16", "double"], [], 32, 64 + 8 + 64),
    ("aten::copy_", [[8, 4], [8, 4]], ["float", "float"], [], 0, 256),
    ("aten::sum", [[8, 4], [], []], ["float", "ScalarList", "Scalar"], ["", "[0]", "False"], 32,
     128 + 16),
    ("aten::sum", [[8, 4]], ["float"], [], 32, 128 + 4),
    ("aten::embedding", [[100, 16], [3]], ["float", "long int"], [], 0, 2 * 3 * 16 * 4 + 24),
    ("aten::t", [[8, 4]], ["float"], [], 0, 0),
]  # fmt: skip


@pytest.mark.parametrize("case", WORK, ids=lambda c: str(c[0]) + str(c[1]))
def test_bytes_are_inputs_and_outputs(case: tuple[object, ...]) -> None:
    name, dims, types, concrete, expected, moved = case
    found = flops.work(name, dims, types, concrete, None)  # type: ignore[arg-type]
    assert found is not None and (found.flops, found.bytes) == (expected, moved)


def test_unknown_operators_are_unknown_not_free() -> None:
    assert flops.work("mine::fused", [[8]], ["float"], [], None) is None
    fused = flops.work("aten::_fused_adamw_", [], [], [], None)
    assert fused is not None and fused.flops is None and fused.bytes is None
    known = flops.work("aten::_fused_adamw_", [], [], [], 1000)
    assert known is not None and known.bytes == 28_000


def test_a_capture_name_never_leaves_the_spool(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('{"traceEvents": []}')
    spool = tmp_path / "spool"
    spool.mkdir()
    fact = {"k": "capture", "file": "../secret.json", "steps": 1}
    (spool / "12-a.facts").write_text(json.dumps(fact) + "\nnot json\n")

    class Nothing:
        def append(self, table: str, rows: object) -> None:
            raise AssertionError("nothing was captured")

    (problem,) = kineto.import_captures(spool, Nothing())
    assert "secret.json" in problem and "No such file" in problem


def test_bytes_of_a_list_of_tensors() -> None:
    """cat of three [2, 16] of 4 bytes reads and writes each element once; `[]` is one number."""
    dims, types = [[[2, 16], [2, 16], [2, 16]], []], ["TensorList", "Scalar"]
    found = flops.work("aten::cat", dims, types, ["", "1"], None)
    assert found is not None and (found.flops, found.bytes) == (0.0, 2 * 96 * 4)
    for told in ([], [[2, "16"]], [2, 16], None):
        unknown = flops.work("aten::cat", [told], ["TensorList"], [], None)
        assert unknown is not None and unknown.bytes is None
