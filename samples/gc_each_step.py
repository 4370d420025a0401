"""A trainer that calls gc.collect() after every step "to free memory".

A replay buffer of many small Python objects makes each full collection walk them all.

fixed by: gc_frozen.py
expect: bottleneck=host-bound, cause=python
"""

import gc
import os
import random

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "80"))
BATCH, FEATURES, REPLAY = 64, 32, 200_000


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the model is too small to share between cores
    rng = random.Random(0)
    replay = [{"state": [i, i + 1], "action": i % 4} for i in range(REPLAY)]
    net = nn.Sequential(nn.Linear(FEATURES, 256), nn.ReLU(), nn.Linear(256, 4))
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(STEPS):
        rows = rng.choices(replay, k=BATCH)
        states = torch.tensor([row["state"] * (FEATURES // 2) for row in rows]).float() / REPLAY
        actions = torch.tensor([row["action"] for row in rows])
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(states), actions).backward()
        optimizer.step()
        gc.collect()


if __name__ == "__main__":
    main()
