"""A contrastive loss written as two Python loops over pairs of rows.

Thousands of operations on a few numbers each: the time goes to Python and to dispatching operators.

fixed by: loss_matrix.py
expect: bottleneck=host-bound, cause=small-kernels|python|synchronisation
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "500"))
BATCH, FEATURES, WIDTH = 24, 64, 32


def contrastive(vectors: torch.Tensor, labels: list[int]) -> torch.Tensor:
    """Pulls rows with the same label together and pushes the others apart."""
    total = vectors.new_zeros(())
    for i in range(len(labels)):
        for j in range(i):
            distance = (vectors[i] - vectors[j]).pow(2).sum()
            same = labels[i] == labels[j]
            total = total + (distance if same else torch.relu(1 - distance))
    return total / len(labels) ** 2


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the model is too small to share between cores
    net = nn.Sequential(nn.Linear(FEATURES, 128), nn.ReLU(), nn.Linear(128, WIDTH))
    optimizer = torch.optim.Adam(net.parameters())
    rows, labels = torch.randn(BATCH, FEATURES), [i % 4 for i in range(BATCH)]
    for _ in range(STEPS):
        optimizer.zero_grad()
        contrastive(net(rows), labels).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
