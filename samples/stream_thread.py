"""The twin of stream_inline.py: a thread unpacks the next batches while the model works.

Unpacking releases the interpreter's lock, so it runs beside the training thread; the model is of a
size that hides it.

fixes: stream_inline.py
expect: bottleneck=compute-bound|memory-bound, input<=0.25
"""

import lzma
import os
import queue
import threading
from collections.abc import Iterator

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "60"))
BATCH, SIDE = 32, 64
Batch = tuple[torch.Tensor, torch.Tensor]


def recordings() -> list[bytes]:
    torch.manual_seed(0)
    waves = torch.randint(0, 16, (6, BATCH, SIDE, SIDE), dtype=torch.uint8)
    return [lzma.compress(wave.numpy().tobytes(), preset=0) for wave in waves]


def unpack(packed: list[bytes], ready: "queue.Queue[Batch | None]") -> None:
    for step in range(STEPS):
        raw = bytearray(lzma.decompress(packed[step % len(packed)]))
        wave = torch.frombuffer(raw, dtype=torch.uint8).view(BATCH, 1, SIDE, SIDE)
        ready.put((wave.float() / 16, torch.arange(BATCH) % 10))
    ready.put(None)


def batches(packed: list[bytes]) -> Iterator[Batch]:
    ready: queue.Queue[Batch | None] = queue.Queue(maxsize=4)
    threading.Thread(target=unpack, args=(packed, ready), daemon=True).start()
    while (batch := ready.get()) is not None:
        yield batch


def main() -> None:
    packed = recordings()
    torch.set_num_threads(1)  # the other core unpacks
    net = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 48, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(768, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    for images, labels in batches(packed):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(images), labels).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
