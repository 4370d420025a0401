"""Measures a machine's ceilings with the job's own torch; runs as a file in the job's Python.

    python probe.py '{"threads": 2, "budget_s": 6.0, "memory_bytes": 1073741824}'

Prints one JSON object. Every figure is the best of several repetitions: a ceiling is what the
machine can do, and what else runs on it only lowers a reading. Python 3.9+, torch only.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

Call = Callable[[], object]

# FLOPs an element as profiler/traces/flops.py counts them
ELEMENT_FLOPS = {"add": 1, "exp": 10, "log": 10, "tanh": 15, "erf": 20, "rand": 20}


def best(call: Call, seconds: float, at_least: int = 3) -> float:
    """Shortest duration of `call` in s, repeated for about `seconds`."""
    call()
    shortest, runs, end = float("inf"), 0, time.perf_counter() + seconds
    while runs < at_least or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        shortest = min(shortest, time.perf_counter() - start)
        runs += 1
    return shortest


def gemm(torch: Any, dtype: Any, size: int, seconds: float) -> float:
    a = torch.randn(size, size).to(dtype)
    b = torch.randn(size, size).to(dtype)
    out = torch.empty(size, size, dtype=dtype)
    return 2.0 * size**3 / best(lambda: torch.mm(a, b, out=out), seconds)


def triad(torch: Any, total_bytes: int, seconds: float) -> float:
    """a = b + 3 c; 12 bytes an element of fp32, as STREAM counts (no write-allocate)."""
    count = total_bytes // 12
    a, b, c = torch.zeros(count), torch.ones(count), torch.ones(count)
    return 12.0 * count / best(lambda: torch.add(b, c, alpha=3.0, out=a), seconds)


def matvec(torch: Any, total_bytes: int, seconds: float) -> float:
    """Bytes/s of a matrix-vector product: reading only, as in decoding at batch 1."""
    width = 4096
    rows = max(1024, total_bytes // 4 // width)
    weight, x = torch.ones(rows, width), torch.ones(1, width)
    return 4.0 * rows * width / best(lambda: torch.mm(x, weight.t()), seconds)


def elements(torch: Any, seconds: float) -> dict[str, float]:
    """FLOP/s of element-wise functions on tensors that stay in the cache."""
    x = torch.rand(1 << 18).add_(0.5)
    out = torch.empty_like(x)
    calls = {
        "add": lambda: torch.add(x, x, out=out),
        "exp": lambda: torch.exp(x, out=out),
        "log": lambda: torch.log(x, out=out),
        "tanh": lambda: torch.tanh(x, out=out),
        "erf": lambda: torch.erf(x, out=out),
        "rand": lambda: out.bernoulli_(0.5),
    }
    each = seconds / len(calls)
    return {k: ELEMENT_FLOPS[k] * x.numel() / best(call, each) for k, call in calls.items()}


def dispatch(torch: Any, seconds: float) -> float:
    """Seconds of one operator that has nothing to compute."""
    x, y = torch.ones(4), torch.ones(4)

    def many() -> None:
        for _ in range(200):
            torch.add(x, y)

    return best(many, seconds) / 200


def measure(options: dict[str, Any]) -> dict[str, Any]:
    del sys.path[0]  # this folder: its modules are not the job's
    import torch

    torch.set_num_threads(max(1, int(options["threads"])))
    budget = float(options["budget_s"])
    end = time.perf_counter() + budget
    with torch.no_grad():
        flops = {"fp32": gemm(torch, torch.float32, 2048, budget * 0.2)}
        # Where bf16 has no fast path it is many times slower: one small product tells
        if gemm(torch, torch.bfloat16, 512, 0.05) > 0.5 * flops["fp32"]:
            flops["bf16"] = gemm(torch, torch.bfloat16, 2048, budget * 0.1)
        if time.perf_counter() < end:
            flops["fp64"] = gemm(torch, torch.float64, 1024, budget * 0.05)
        vector = elements(torch, budget * 0.1)
        launch = dispatch(torch, budget * 0.05)
        size = int(options["memory_bytes"])
        write = triad(torch, size, budget * 0.25)
        read = matvec(torch, size // 2, budget * 0.1)
    return {
        "flops": flops,
        "vector_flops": vector,
        "bytes_per_s": write,
        "read_bytes_per_s": read,
        "launch_s": launch,
        "torch": str(torch.__version__),
        "threads": torch.get_num_threads(),
    }


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
