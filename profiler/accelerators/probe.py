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
from functools import partial
from typing import Any

Call = Callable[[], object]
SCALING = 0.95  # of the rate of one thread that each of several reaches
CHUNK_BYTES = 8 << 20  # 0.3 ms of memory traffic: short enough to go undisturbed

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


def robust_gemm(torch: Any, dtype: Any, seconds: float) -> float:
    """FLOP/s of a matrix product, also where other processes want the CPU.

    All threads have to run at the same time for the whole product, so on a busy machine a long one
    is never undisturbed. Shorter ones may be, and one thread alone more often still; threads run
    on cores of their own, so its rate times their number is nearly what they reach together.
    """
    threads = torch.get_num_threads()
    rates = [gemm(torch, dtype, size, seconds / 4) for size in (2048, 1024)]
    torch.set_num_threads(1)
    alone = max(gemm(torch, dtype, size, seconds / 4) for size in (512, 1024))
    torch.set_num_threads(threads)
    return max(*rates, SCALING * threads * alone) if threads > 1 else max(*rates, alone)


def by_chunks(torch: Any, calls: list[Call], seconds: float) -> float:
    """Seconds of one chunk, of chunks that go round a large array: the 5 % quantile.

    Each chunk comes from memory again, since the array is far larger than a cache; the very best
    one may have been cached by chance. One thread alone is tried too: on a busy machine several
    hardly ever run at once.
    """
    threads = torch.get_num_threads()
    together = _fast_chunk(calls, seconds * 0.6)
    torch.set_num_threads(1)
    alone = _fast_chunk(calls, seconds * 0.4)
    torch.set_num_threads(threads)
    return min(together, alone)


def _fast_chunk(calls: list[Call], seconds: float) -> float:
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        for call in calls:
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
    times.sort()
    return times[len(times) // 20]


def triad(torch: Any, total_bytes: int, seconds: float) -> float:
    """a = b + 3 c; 12 bytes an element of fp32, as STREAM counts (no write-allocate)."""
    count = total_bytes // 12
    a, b, c = torch.zeros(count), torch.ones(count), torch.ones(count)
    size = min(count, CHUNK_BYTES // 12)
    calls: list[Call] = []
    for at in range(0, count - size + 1, size):
        x, y, z = (t[at : at + size] for t in (a, b, c))
        calls.append(partial(torch.add, y, z, alpha=3.0, out=x))
    return 12.0 * size / by_chunks(torch, calls, seconds)


def matvec(torch: Any, total_bytes: int, seconds: float) -> float:
    """Bytes/s of a matrix-vector product: reading only, as in decoding at batch 1."""
    width = 4096
    rows = min(total_bytes, CHUNK_BYTES) // 4 // width
    x = torch.ones(1, width)
    calls: list[Call] = []
    for _ in range(max(1, total_bytes // (rows * width * 4))):
        weight = torch.ones(rows, width)
        calls.append(partial(torch.mm, x, weight.t()))
    return 4.0 * rows * width / by_chunks(torch, calls, seconds)


def elements(torch: Any, seconds: float) -> dict[str, float]:
    """FLOP/s of element-wise functions on tensors that stay in the cache.

    Measured on one thread and multiplied, for the reason given at `robust_gemm`; random numbers
    come from one thread whatever their number.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    x = torch.rand(1 << 16).add_(0.5)
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
    rates = {k: ELEMENT_FLOPS[k] * x.numel() / best(call, each, 20) for k, call in calls.items()}
    torch.set_num_threads(threads)
    scale = SCALING * threads if threads > 1 else 1.0
    return {k: v * (1.0 if k == "rand" else scale) for k, v in rates.items()}


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

    if options.get("threads"):
        torch.set_num_threads(int(options["threads"]))
    budget = float(options["budget_s"])
    end = time.perf_counter() + budget
    with torch.no_grad():
        flops = {"fp32": robust_gemm(torch, torch.float32, budget * 0.25)}
        # Where bf16 has no fast path it is many times slower: one small product tells
        if gemm(torch, torch.bfloat16, 512, 0.05) > 0.5 * flops["fp32"]:
            flops["bf16"] = robust_gemm(torch, torch.bfloat16, budget * 0.15)
        if time.perf_counter() < end:
            flops["fp64"] = robust_gemm(torch, torch.float64, budget * 0.1)
        vector = elements(torch, budget * 0.1)
        launch = dispatch(torch, budget * 0.05)
        size = int(options["memory_bytes"])
        write = triad(torch, size, budget * 0.25)
        read = matvec(torch, size // 2, budget * 0.15)
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
