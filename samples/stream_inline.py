"""A hand-written generator, no DataLoader: it unpacks and scales each batch when asked for it.

fixed by: stream_thread.py
expect: bottleneck=input-bound, input>=0.5
"""

import lzma
import os
from collections.abc import Iterator

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "400"))
BATCH, SIDE = 32, 96


def recordings() -> list[bytes]:
    torch.manual_seed(0)
    waves = torch.randint(0, 16, (6, BATCH, SIDE, SIDE), dtype=torch.uint8)
    return [lzma.compress(wave.numpy().tobytes(), preset=0) for wave in waves]


def batches(packed: list[bytes]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for step in range(STEPS):
        raw = bytearray(lzma.decompress(packed[step % len(packed)]))
        wave = torch.frombuffer(raw, dtype=torch.uint8).view(BATCH, 1, SIDE, SIDE)
        yield wave.float() / 16, torch.arange(BATCH) % 10


def main() -> None:
    packed = recordings()
    torch.set_num_threads(1)  # the model is too small to share between cores
    net = nn.Sequential(
        nn.Conv2d(1, 8, 5, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        nn.Linear(128, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    for images, labels in batches(packed):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(images), labels).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
