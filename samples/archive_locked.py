"""Two workers read records out of one remote archive that serves a single reader at a time.

A range read takes 30 ms and holds the archive's lock meanwhile: adding workers would not help, and
the processors idle. Only fewer, larger reads (or a local copy) do.

fixed by: archive_cached.py
expect: bottleneck=input-bound, cause=storage|remote-data|too-few-workers, input>=0.7
"""

import gzip
import multiprocessing
import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = int(os.environ.get("STEPS", "60"))
BATCH, CHUNK, SIDE = 8, 2, 64
RANGE_READ_S = 0.030  # what one range request to an object store takes


class Archive(Dataset):
    """Gzipped chunks of two records; a chunk is fetched and unpacked anew for each record."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        records = torch.randint(0, 64, (8, CHUNK, 3, SIDE, SIDE), dtype=torch.uint8)
        self.chunks = [gzip.compress(chunk.numpy().tobytes(), 1) for chunk in records]
        self.lock = multiprocessing.Lock()

    def __len__(self) -> int:
        return STEPS * BATCH

    def fetch(self, chunk: int) -> bytes:
        with self.lock:
            time.sleep(RANGE_READ_S)
        return self.chunks[chunk % len(self.chunks)]

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        raw = bytearray(gzip.decompress(self.fetch(index // CHUNK)))
        chunk = torch.frombuffer(raw, dtype=torch.uint8).view(CHUNK, 3, SIDE, SIDE)
        return chunk[index % CHUNK].float() / 64, index % 10


def main() -> None:
    torch.set_num_threads(1)  # the model is too small to share between cores
    net = nn.Sequential(
        nn.Conv2d(3, 24, 3, 2), nn.ReLU(),
        nn.Conv2d(24, 24, 3, 2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(384, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(net.parameters())
    for images, labels in DataLoader(Archive(), BATCH, num_workers=2):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(images), labels).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
