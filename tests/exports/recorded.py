"""Recorded runs with captured operators beside their steps and samples."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from accelprof.storage.writer import RunWriter

TESTS = Path(__file__).parents[1]
CALIBRATION = {
    "flops": {"fp32": 4.1e11, "bf16": 1.1e12},
    "vector_flops": {"add": 2.3e10, "exp": 1.3e11},
    "bytes_per_s": 4.1e10,
    "launch_s": 1e-6,
}
MS = 1_000_000


sys.path.insert(0, str(TESTS / "tui"))
import recording  # noqa: E402

RUN_ID: str = recording.RUN_ID


def record(home: Path, *, run_id: str = RUN_ID, name: str = "resnet", **more: Any) -> Path:
    """A run in a library, with operators of one captured step. Returns its folder."""
    folder = home / "runs" / run_id
    recording.record(folder, run_id=run_id, name=name, **more)
    with_operators(folder)
    return folder


def with_operators(folder: Path) -> None:
    writer = RunWriter(folder / "run.duckdb")
    writer.append("op", [_operator(*row) for row in OPERATORS])
    writer.append("meta", [{"key": "calibration", "value": json.dumps(CALIBRATION)}])
    writer.close()


# name, phase, shapes, calls, FLOPs, bytes, ms
OPERATORS = (
    ("aten::convolution", "forward", [[32, 64, 56, 56], [64, 64, 3, 3]], 16, 3.4e9, 5.0e7, 9.6),
    ("aten::convolution_backward", "backward", [[32, 64, 56, 56]], 16, 6.8e9, 1.1e8, 21.0),
    ("aten::mm", "forward", [[32, 512], [512, 1000]], 1, 3.3e7, 2.3e6, 0.3),
    ("aten::relu_", "forward", [[32, 64, 56, 56]], 17, 1.1e8, 8.7e8, 2.4),
    ("aten::native_batch_norm", "forward", [[32, 64, 56, 56]], 20, 5.1e8, 1.0e9, 4.0),
    ("aten::add_", "optimizer", [[512]], 62, 6.3e4, 7.6e5, 1.1),
    ("<img src=x onerror=alert(1)>", "forward", [[8]], 9, 4.0e4, 5.0e4, 0.6),
)


def _operator(  # noqa: PLR0917
    name: str, phase: str, shapes: list[list[int]], calls: int, flops: float, moved: float,
    ms: float,
) -> dict[str, Any]:  # fmt: skip
    return {
        "capture": 0, "pid": recording.MAIN, "t_ns": recording.START_NS, "steps": 1,
        "window_ns": 48 * MS, "name": name, "phase": phase, "shapes": json.dumps(shapes),
        "dtype": "fp32", "calls": calls, "flops": flops, "bytes": moved,
        "time_ns": int(ms * MS), "host_ns": int(ms * MS),
    }  # fmt: skip


@contextlib.contextmanager
def live(home: Path) -> Iterator[None]:
    """A run in a library that another process records meanwhile."""
    code = "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]); import recording"
    job = subprocess.Popen(
        [sys.executable, "-c", f"{code}; recording.live(Path(sys.argv[2]))",
         str(TESTS / "tui"), str(home / "runs" / RUN_ID)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert job.stdout is not None
    assert job.stdout.readline() == "ready\n"
    try:
        yield
    finally:
        job.communicate("end\n", timeout=30)
