"""Short epochs whose workers start anew each time, over a store with a pause a batch."""

import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Shard(Dataset):
    def __len__(self):
        return 160

    def __getitem__(self, index):
        time.sleep(0.004)
        return torch.full((128,), float(index)), index % 10


def main():
    torch.manual_seed(0)
    torch.set_num_threads(int(os.environ.get("THREADS", "1")))
    model = nn.Linear(128, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    workers = int(os.environ.get("WORKERS", "2"))
    keep = os.environ.get("KEEP") == "1"
    ahead = int(os.environ.get("PREFETCH", "2"))
    loader = DataLoader(
        Shard(), 8, num_workers=workers, persistent_workers=keep, prefetch_factor=ahead
    )
    for _ in range(10_000):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
