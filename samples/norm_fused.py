"""The twin of norm_chain.py: fused layer_norm and hardswish, and a convolution to feed them.

The normalisation reads and writes its tensor once, and most of the time is arithmetic.

fixes: norm_chain.py
expect: bottleneck=compute-bound
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "60"))
BATCH, CHANNELS, SIDE, LAYERS = 4, 128, 32, 3


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
        self.norm = nn.GroupNorm(1, CHANNELS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + nn.functional.hardswish(self.norm(self.mix(x)))


def main() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(*[Block() for _ in range(LAYERS)])
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    images = torch.randn(BATCH, CHANNELS, SIDE, SIDE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        net(images).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
