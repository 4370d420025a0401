"""What the hooks add to a training step: CPU time of the training thread.

    python benchmarks/training_thread.py [--processes N] [--rounds N]

One process has the hooks put in and taken out in turns of a few steps, so that both sides see the
same memory, the same code and the same weather: two processes of one job differ by 10 us a step for
reasons of their own. Three jobs: a step of 0.2 ms, the same with 241 modules, and one of 5 ms. The
figure is the median of the paired differences of each process, and its range over processes.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

INJECT = Path(__file__).resolve().parent.parent / "hooks" / "inject"
JOBS = {  # inner modules, whether they compute, width, batch, steps a turn
    "0.2 ms, 3 modules": (1, 0, 4, 1, 50),
    "0.4 ms, 241 modules": (239, 0, 4, 1, 30),
    "5 ms": (8, 1, 512, 32, 6),
}


def training(inner: int, computes: bool, width: int, batch: int) -> tuple[Any, Iterator[None]]:
    """A model, and its training without end."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    layers = [torch.nn.Linear(width, width) if computes else torch.nn.Identity()
              for _ in range(inner)]  # fmt: skip
    model = torch.nn.Sequential(*layers, torch.nn.Linear(width, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    loader = DataLoader(TensorDataset(torch.randn(1024, width)), batch_size=batch)

    def forever() -> Iterator[None]:
        while True:
            for (x,) in loader:
                model(x).sum().backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=False)
                yield

    return model, forever()


class Hooks:
    """Takes the hooks of this process out, and puts them back."""

    def __init__(self, model: Any) -> None:
        ours = {
            name.rpartition(".")[2]: module
            for name, module in sys.modules.items()
            if name.startswith("_accelprof_hooks.")
        }
        loader, training = ours["loader"], ours["training"]
        self.model, self.key = model, ours["modules"].KEY
        self.collected = ours["collector"]._collected
        self.replaced = [
            replaced
            for hook in (loader.waits, loader.making, training.backwards, training.optimizers)
            for replaced in hook._replaced
        ]
        self.calls: list[Any] = []  # the root's wrapper while it is out: it counts its references

    def take_out(self) -> None:
        for owner, name, original, _, was_there in self.replaced:
            setattr(owner, name, original) if was_there else delattr(owner, name)
        self.calls.append(self.model.__dict__.pop(self.key))
        gc.callbacks.remove(self.collected)

    def put_in(self) -> None:
        for owner, name, _, ours, _ in self.replaced:
            setattr(owner, name, ours)
        self.model.__dict__[self.key] = self.calls.pop()
        gc.callbacks.append(self.collected)


def measure(job: str, rounds: int) -> tuple[float, float]:
    """What the hooks add, and a step without them, us of this thread's CPU time."""
    *shape, steps = JOBS[job]
    model, loop = training(*shape)  # type: ignore[arg-type]
    for _ in range(200):
        next(loop)
    hooks = Hooks(model)

    def turn() -> float:
        next(loop)
        next(loop)
        start = time.thread_time_ns()
        for _ in range(steps):
            next(loop)
        return (time.thread_time_ns() - start) / steps / 1e3

    added, plain = [], []
    for number in range(rounds):
        first = turn() if number % 2 else 0.0
        hooks.take_out()
        plain.append(turn())
        hooks.put_in()
        added.append((first or turn()) - plain[-1])
    return statistics.median(added), statistics.median(plain)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--job", choices=JOBS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        print(*measure(options.job, options.rounds))
        return
    for job in JOBS:
        found = [run(job, options.rounds) for _ in range(options.processes)]
        added = sorted(a for a, _ in found)
        base = statistics.median(b for _, b in found)
        middle = statistics.median(added)
        print(
            f"step of {job}: {middle:+.1f} us ({added[0]:.1f} to {added[-1]:.1f} in"
            f" {len(found)} processes) on {base:.0f} us: {middle / base:.2%} of it,"
            f" {middle / 5000:.2%} of 5 ms"
        )


def run(job: str, rounds: int) -> tuple[float, float]:
    """The same in a process of its own, with the hooks in. Captures are a budget of their own."""
    with tempfile.TemporaryDirectory() as spool:
        ours = {"PYTHONPATH": str(INJECT), "ACCELPROF_SPOOL": spool, "ACCELPROF_CAPTURE": "off"}
        command = [sys.executable, __file__, "--job", job, "--rounds", str(rounds)]
        done = subprocess.run(
            command, env=os.environ | ours, stdout=subprocess.PIPE, text=True, check=True
        )
    added, base = map(float, done.stdout.split())
    return added, base


if __name__ == "__main__":
    main()
