"""What a recorded run may also have: another rank, several GPUs, operators, stacks, events."""

from __future__ import annotations

import json
import math
from typing import Any

from accelprof.storage.writer import RunWriter

START_NS = 1_768_213_000_000_000_000  # as in recording.py
MS = 1_000_000
MAIN, OTHER, WORKERS = 4100, 4101, (4110, 4111)
GPUS = 4
POWER_CAP = 0x4


def add(writer: RunWriter, steps: list[dict[str, Any]], length: int) -> None:
    """Rows beside those of recording.record."""
    others = [step | {"pid": OTHER, "rank": 1, "forward_ns": step["forward_ns"] // 2,
                      "collective_ns": step["forward_ns"] // 2} for step in steps]  # fmt: skip
    writer.append("step", others)
    writer.append("process", [{
        "process": f"{OTHER}-1", "pid": OTHER, "ppid": 4000, "role": "rank", "rank": 1,
        "command": "python resnet.py --epochs 3", "started_ns": START_NS, "hooks": "loaded",
        "spans_lost": 0, "spans": 4800, "facts": "[]",
    }])  # fmt: skip
    writer.append("device", [
        {"device": at, "name": "NVIDIA H100 80GB HBM3", "kind": "gpu", "catalogue": "h100-sxm-80gb",
         "memory_bytes": 80 << 30, "details": "{}"} for at in range(GPUS)
    ])  # fmt: skip
    writer.append(
        "device_sample",
        [_sample(device, at) for at in range(0, length, 500 * MS) for device in range(GPUS)],
    )
    writer.append("op", [_op(row) for row in _OPS])
    writer.append("stack", [
        {"t_ns": START_NS + 20_000 * MS, "pid": pid, "thread": "MainThread", "samples": count,
         "frames": f"<module> (train.py:60);__getitem__ (data.py:{line});{function}"}
        for pid in WORKERS
        for line, function, count in ((41, "open (PIL/Image.py:3480)", 60),
                                      (44, "resize (PIL/Image.py:2300)", 24),
                                      (52, "normalize (data.py:20)", 9))
    ])  # fmt: skip
    writer.append("event", [
        {"t_ns": START_NS + 31_000 * MS, "kind": "device-counters", "pid": None, "rank": None,
         "data": json.dumps({"device": 3, "power_capped_s": 4.2})},
        {"t_ns": START_NS + length, "kind": "end", "pid": MAIN, "rank": None,
         "data": json.dumps({"state": "finished", "signal": None})},
    ])  # fmt: skip


def _sample(device: int, at: int) -> dict[str, Any]:
    wave = math.sin(at / 5e9 + device)
    capped = device == 3 and at > 30_000 * MS
    return {
        "t_ns": START_NS + at, "device": device, "busy_share": 0.34 + 0.1 * wave,
        "memory_busy_share": 0.11, "memory_used_bytes": (31 + device) << 30,
        "memory_total_bytes": 80 << 30, "power_w": 690.0 if capped else 231.0 + 20 * wave,
        "power_limit_w": 700.0, "temperature_c": 78.0 if capped else 51.0,
        "sm_share": 0.3 + 0.1 * wave, "tensor_share": 0.12, "dram_share": 0.16 + 0.05 * wave,
        "sm_clock_hz": 1_410_000_000 if capped else 1_980_000_000,
        "throttle_bits": POWER_CAP if capped else 0, "pcie_generation": 5, "pcie_width": 16,
    }  # fmt: skip


_OPS = (  # name, phase, dtype, calls, FLOPs, bytes, ms
    ("aten::cudnn_convolution", "forward", "bf16", 53, 4.1e11, 3.4e9, 9.2),
    ("aten::convolution_backward", "backward", "bf16", 53, 8.2e11, 7.1e9, 19.0),
    ("aten::batch_norm", "forward", "bf16", 53, 3.0e9, 5.2e9, 2.6),
    ("aten::threshold_backward", "backward", "bf16", 49, 1.1e9, 6.6e9, 2.4),
    ("aten::addmm", "forward", "bf16", 1, 1.3e8, 4.9e6, 0.03),
    ("aten::_fused_adamw_", "optimizer", "fp32", 1, 3.5e8, 4.1e8, 0.4),
    ("aten::add_", "forward", "bf16", 60, 4.0e6, 3.0e6, 0.5),
)


def _op(row: tuple[str, str, str, int, float, float, float]) -> dict[str, Any]:
    name, phase, dtype, calls, flops, moved, ms = row
    return {
        "capture": 1, "pid": MAIN, "t_ns": START_NS + 9_000 * MS, "steps": 1,
        "window_ns": 50 * MS, "name": name, "phase": phase, "shapes": "[]", "dtype": dtype,
        "calls": calls, "flops": flops, "bytes": moved, "time_ns": int(ms * MS),
        "host_ns": int(ms * MS),
    }  # fmt: skip
