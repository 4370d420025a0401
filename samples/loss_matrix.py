"""The twin of loss_loop.py: the same loss as one matrix product, over a far larger batch.

fixes: loss_loop.py
expect: bottleneck=compute-bound|memory-bound, host<=0.3
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "60"))
BATCH, FEATURES, HIDDEN, WIDTH = 2048, 512, 1024, 1024


def contrastive(vectors: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Pulls rows with the same label together and pushes the others apart."""
    squares = vectors.pow(2).sum(1)
    distance = squares[:, None] + squares[None, :] - 2 * vectors @ vectors.T
    same = labels[:, None] == labels[None, :]
    return torch.where(same, distance, torch.relu(1 - distance)).tril(-1).sum() / len(labels) ** 2


def main() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(),
        nn.Linear(HIDDEN, WIDTH),
    )  # fmt: skip
    optimizer = torch.optim.Adam(net.parameters())
    rows, labels = torch.randn(BATCH, FEATURES), torch.arange(BATCH) % 4
    for _ in range(STEPS):
        optimizer.zero_grad()
        contrastive(net(rows), labels).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
