"""The three cases of docs/advice.md, as recorded runs; run as a script, it writes them there anew.

python -m accelprof.tests.advisor.cases
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelprof.profiler import advisor
from accelprof.profiler.accelerators.catalogue import find
from accelprof.profiler.advisor import Question, curves
from accelprof.profiler.advisor.operators import Operator
from accelprof.profiler.advisor.table import render

from .runs import Recorded, operator, product, record, stream

DOCUMENT = Path(__file__).parents[2] / "docs" / "advice.md"
Rows = list[dict[str, Any]]


def _timed(ops: Rows, card: str, total_ms: float) -> Rows:
    """Each operator's share of the step as the curves have it on the card."""
    device, spent = find(card), []
    for row in ops:
        made = Operator.of(
            row["name"], row["shapes"], row["dtype"], calls=row["calls"], flops=row["flops"],
            bytes=row["bytes"],
        )  # fmt: skip
        at = curves.target(device, made.dtype or "fp32")
        assert at is not None
        model = curves.parameters()
        spent.append(float(curves.seconds(made, at, curves.sustained(at, model), model)))
    scale = total_ms / sum(spent)
    return [
        row | {"time_ns": int(s * scale * 1e6), "host_ns": int(s * scale * 1e6)}
        for row, s in zip(ops, spent, strict=True)
    ]


def _convolution(
    batch: int, widths: tuple[int, int], side: int, kernel: int, stride: int = 1
) -> Rows:
    """Forward, both gradients, and the batch norm and ReLU behind it."""
    (before, after), out, size = widths, side // stride, 2
    read = batch * before * side * side
    written = batch * after * out * out
    weights = before * after * kernel * kernel
    flops = 2.0 * written * before * kernel * kernel
    moved = float(size * (read + written + weights))
    x, w, y = [batch, before, side, side], [after, before, kernel, kernel], [batch, after, out, out]
    return [
        operator("aten::cudnn_convolution", [x, w], 0, flops=flops, moved=moved, dtype="fp16"),
        operator("aten::convolution_backward", [y, x, w], 0, flops=2 * flops, moved=2 * moved,
                 dtype="fp16", phase="backward"),
        *(operator(f"aten::{name}", [y], 0, flops=5.0 * written, moved=float(size * n * written),
                   dtype="fp16", phase=phase)
          for name, n, phase in (
              ("cudnn_batch_norm", 2, "forward"), ("relu_", 2, "forward"),
              ("cudnn_batch_norm_backward", 3, "backward"),
              ("threshold_backward", 3, "backward"),
          )),
    ]  # fmt: skip


def _resnet50(batch: int) -> Rows:
    ops = _convolution(batch, (3, 64), 224, 7, 2)
    before, side = 64, 56
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(blocks):
            stride = 2 if i == 0 and width > 64 else 1
            ops += _convolution(batch, (before, width), side, 1)
            ops += _convolution(batch, (width, width), side, 3, stride)
            if i == 0:
                ops += _convolution(batch, (before, 4 * width), side, 1, stride)
            before, side = 4 * width, side // stride
            ops += _convolution(batch, (width, before), side, 1)
    return ops


def _input_bound(path: Path) -> Recorded:
    ops = _timed(_resnet50(256), "a100-sxm-80gb", 162.0)
    return record(
        path, ops, work_ms=162.0, wait_ms=243.0, workers=4, samples=256, parameters=25_557_032,
        peak_bytes=22 << 30,
    )  # fmt: skip


def _decoding(path: Path) -> Recorded:
    """Llama 3 8B in fp16, one token of one sequence, without launches that show (CUDA graphs):
    15 GB of weights at 75 % of an H100 PCIe's 2.04 TB/s."""
    shapes = [[1, 32, 1, 128], [1, 8, 512, 128], [1, 8, 512, 128]]
    ops = [
        product(1, 4096, 6144, 0, calls=32, dtype="fp16"),
        product(1, 4096, 4096, 0, calls=32, dtype="fp16"),
        product(1, 4096, 14336, 0, calls=64, dtype="fp16"),
        product(1, 14336, 4096, 0, calls=32, dtype="fp16"),
        product(1, 4096, 128256, 0, dtype="fp16"),
        operator("aten::scaled_dot_product_attention", shapes, 0, calls=32, dtype="fp16",
                 flops=4.0 * 32 * 128 * 512 * 32, moved=2.0 * 2 * 8 * 128 * 512 * 32),
        stream(4096, 0, calls=128, dtype="fp16"),
    ]  # fmt: skip
    ops = _timed(ops, "h100-pcie", 9.8)
    run = record(
        path, ops, work_ms=9.8, card="h100-pcie-80gb", samples=1, trains=False,
        parameters=8_030_000_000, peak_bytes=None,
    )  # fmt: skip
    facts = {"k": "root", "id": 1, "name": "Llama", "parameters": 8_030_000_000,
             "bytes": 16_060_000_000}  # fmt: skip
    run.db.execute("UPDATE process SET facts = ?", [json.dumps([facts])])
    return run


def _small(path: Path) -> Recorded:
    """Thirty layers of 1024 at batch 128: 60 % of a step is Python and launches."""
    ops = [
        product(128, 1024, 1024, 0, calls=30), stream(128 * 1024, 0, calls=60),
        product(1024, 128, 1024, 0, calls=60, phase="backward"),
    ]  # fmt: skip
    ops = _timed(ops, "a100-sxm-80gb", 2.6)
    return record(
        path, ops, work_ms=6.5, host_ms=3.9, samples=128, parameters=31_500_000,
        peak_bytes=1 << 30,
    )  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A run, and what is asked of it."""

    name: str
    make: Callable[[Path], Recorded]
    steps: float
    only: tuple[str, ...]

    def block(self, folder: Path) -> str:
        """The command and what it prints."""
        run = self.make(folder / f"{self.name}.duckdb")
        run.db.execute("UPDATE run SET id = ?", [self.name])
        try:
            asked = Question(steps=self.steps, only=self.only)
            told = render(advisor.advise(advisor.read(run), asked))
        finally:
            run.db.close()
        options = " ".join(f"--only {name}" for name in self.only)
        return (
            f"```\n$ accelprof advise {self.name} --steps {self.steps:.0f} {options}\n{told}\n```"
        )


CASES = (
    Case("input-bound", _input_bound, 100_000,
         ("a100-80gb", "h100", "h200", "rtx-a6000", "l4", "v6e")),
    Case("decoding", _decoding, 1_000_000, ("h100-pcie", "h100", "h200", "l40s", "a100-80gb")),
    Case("small", _small, 100_000, ("a100-80gb", "h100", "l4", "t4", "rtx-a6000", "v5e")),
)  # fmt: skip


def documented() -> Iterator[tuple[Case, str]]:
    """The block of each case that the document shows."""
    text = DOCUMENT.read_text("utf-8")
    for case in CASES:
        found = re.search(_place(case), text, re.DOTALL)
        assert found is not None, case.name
        yield case, found[0]


def _place(case: Case) -> str:
    return rf"```\n\$ accelprof advise {case.name} .*?\n```"


def main() -> None:
    text = DOCUMENT.read_text("utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            block = case.block(Path(folder))
            text = re.sub(_place(case), lambda _, b=block: b, text, flags=re.DOTALL)
    DOCUMENT.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
