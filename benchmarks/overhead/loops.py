"""The loops that every tool is measured on: steps of about 1, 5 and 50 ms, with 0 and 2 workers.

    python loops.py RESULT TOOL STEPS

Writes one line of JSON to RESULT: for each loop the times of its steps, ns. TraceML and
torch.profiler are put in here, as their users put them into a loop; other tools start this file.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

# name: layers, their width, batch, steps of each `STEPS`
LOOPS = {"1 ms": (4, 128, 32, 400), "5 ms": (6, 256, 64, 120), "50 ms": (16, 512, 128, 14)}
WORKERS = (0, 2)
WARM_UP = 4


def step_times(shape: tuple[int, int, int], steps: int, workers: int, around: Any) -> list[int]:
    """Trains for that many steps; what each took with its wait for data."""
    layers, width, batch = shape
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(layers)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    data = TensorDataset(torch.randn(64, width).repeat(batch * (steps + WARM_UP) // 64 + 1, 1))
    loader = DataLoader(data, batch_size=batch, num_workers=workers)
    ends = [time.perf_counter_ns()]
    for (x,) in loader:
        with around(model):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        ends.append(time.perf_counter_ns())
        if len(ends) > steps + WARM_UP:
            break
    return [end - begin for begin, end in pairwise(ends)][WARM_UP:]


def loops(times: float, around: Any) -> dict[str, list[int]]:
    return {
        f"{name}, {workers} workers": step_times(
            (layers, width, batch), max(3, int(steps * times)), workers, around
        )
        for name, (layers, width, batch, steps) in LOOPS.items()
        for workers in WORKERS
    }


def main(result: str, tool: str, times: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    around: Any = lambda _: contextlib.nullcontext()  # noqa: E731
    whole: Any = contextlib.nullcontext()
    if tool == "TraceML":
        import traceml_ai

        traceml_ai.init(mode="auto")
        around = traceml_ai.trace_step
    elif tool == "torch.profiler":
        whole = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with whole:
        found = loops(float(times), around)
    Path(result).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
