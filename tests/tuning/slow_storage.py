"""A loader that waits for a slow store: more workers than cores help, up to a point."""

import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WAIT_S = 0.015  # a sample; 8 samples a batch
STEP_S = 0.010  # an accelerator at work, as the host sees it


class Remote(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        time.sleep(WAIT_S)
        return torch.full((512,), float(index % 5)), index % 10


def main():
    torch.manual_seed(0)
    torch.set_num_threads(int(os.environ.get("THREADS", "1")))
    model = nn.Linear(512, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    workers = int(os.environ.get("WORKERS", "1"))
    ahead = int(os.environ.get("PREFETCH", "2"))
    loader = DataLoader(Remote(), 8, True, num_workers=workers, prefetch_factor=ahead)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        time.sleep(STEP_S)
        optimizer.step()


if __name__ == "__main__":
    main()
