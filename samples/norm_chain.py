"""Normalisation, gate and residual written out as separate element-wise operations.

Each of them reads and writes tensors far larger than the caches for a few FLOPs an element, so the
memory's bandwidth sets the pace.

fixed by: norm_fused.py
expect: bottleneck=memory-bound, cause=unfused-ops
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "40"))
ROWS, WIDTH, LAYERS = 2048, 2048, 3


class Block(nn.Module):
    """x + gate(norm(x)), one operation at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(WIDTH))
        self.shift = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(-1, keepdim=True)
        centred = x - mean
        variance = (centred * centred).mean(-1, keepdim=True)
        normal = centred / torch.sqrt(variance + 1e-5)
        affine = normal * self.scale + self.shift
        gated = affine * torch.clamp(affine * 0.2 + 0.5, 0.0, 1.0)
        return x + 0.1 * gated


def main() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(*[Block() for _ in range(LAYERS)])
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    rows = torch.randn(ROWS, WIDTH)
    for _ in range(STEPS):
        optimizer.zero_grad()
        net(rows).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
