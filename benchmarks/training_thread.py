"""What the hooks add to a training step, on the training thread.

    python benchmarks/training_thread.py [--rounds N] [--steps N]

One process per side, both alive at once and never running at the same time: they take turns of a
few steps, so that both see the same weather. Prints CPU time of the training thread, for a model
of 3 modules and for one of 241: the median of the paired differences, and the difference between
the lower quartiles of both sides, which a busy machine disturbs less.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

INJECT = Path(__file__).resolve().parent.parent / "hooks" / "inject"

JOB = """
import sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
depth, steps = int(sys.argv[1]), int(sys.argv[2])

class Inner(torch.nn.Module):
    def forward(self, x):
        return x

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.ModuleList([Inner() for _ in range(depth)])
        self.last = torch.nn.Linear(4, 1)
    def forward(self, x):
        for layer in self.inner:
            x = layer(x)
        return self.last(x)

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
loader = DataLoader(TensorDataset(torch.randn(1024, 4)), batch_size=1)

def forever():
    while True:
        for (x,) in loader:
            net(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            yield

loop = forever()
for _ in range(500):
    next(loop)
for line in sys.stdin:
    start = time.thread_time_ns()
    for _ in range(steps):
        next(loop)
    print((time.thread_time_ns() - start) / steps / 1e3, flush=True)
"""


class Side:
    """One process, with or without hooks, that does a round of steps when asked."""

    def __init__(self, depth: int, steps: int, spool: str | None) -> None:
        plain = {
            k: v for k, v in os.environ.items() if not k.startswith(("ACCELPROF", "PYTHONPATH"))
        }
        # The capture is a budget of its own: benchmarks of the step leave it out
        ours = {"PYTHONPATH": str(INJECT), "ACCELPROF_SPOOL": spool, "ACCELPROF_CAPTURE": "off"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", JOB, str(depth), str(steps)],
            env=plain | ({k: v for k, v in ours.items() if v} if spool else {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def round(self) -> float:
        """Microseconds a step."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self) -> None:
        self.process.communicate()


def compare(depth: int, rounds: int, steps: int) -> None:
    with tempfile.TemporaryDirectory() as spool:
        plain, hooked = Side(depth, steps, None), Side(depth, steps, spool)
        for side in (plain, hooked):
            side.round()
        pairs = []
        for number in range(rounds):
            first, second = (plain, hooked) if number % 2 else (hooked, plain)
            times = {first: first.round(), second: second.round()}
            pairs.append((times[plain], times[hooked]))
        plain.end()
        hooked.end()
    base = statistics.median(p for p, _ in pairs)
    added = statistics.median(h - p for p, h in pairs)
    low = lower_quartile([h for _, h in pairs]) - lower_quartile([p for p, _ in pairs])
    print(
        f"{depth + 2} modules: {added:+.1f} us a step on {base:.0f} us ({rounds} pairs of {steps}"
        f" steps; lower quartiles {low:+.1f} us); {added / 50:.2f} % of 5 ms"
    )


def lower_quartile(values: list[float]) -> float:
    return statistics.quantiles(values, n=4)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    for depth in (1, 239):
        compare(depth, options.rounds, options.steps)


if __name__ == "__main__":
    main()
