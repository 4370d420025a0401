"""The twin of gc_each_step.py: the replay buffer is a tensor, the collector is left alone.

fixes: gc_each_step.py
expect: bottleneck=compute-bound|memory-bound, host<=0.3
"""

import gc
import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "60"))
BATCH, FEATURES, WIDTH, REPLAY = 1024, 256, 2048, 200_000


def main() -> None:
    torch.manual_seed(0)
    states, actions = torch.randn(REPLAY, FEATURES), torch.randint(0, 4, (REPLAY,))
    net = nn.Sequential(
        nn.Linear(FEATURES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
        nn.Linear(WIDTH, 4),
    )  # fmt: skip
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    gc.freeze()  # what lives until the end needs no looking at
    for _ in range(STEPS):
        rows = torch.randint(0, REPLAY, (BATCH,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(states[rows]), actions[rows]).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
