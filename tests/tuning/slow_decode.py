"""A loader that burns a core for each batch, in the training process; the model is small."""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ROUNDS = int(os.environ.get("ROUNDS", "9"))


class Noise(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        x = torch.full((64, 64), 1.0 + index % 7)
        for _ in range(ROUNDS):
            x = torch.tanh(x @ x.T / 64)
        return x.flatten()[:256], index % 10


def main():
    torch.manual_seed(0)
    torch.set_num_threads(int(os.environ.get("THREADS", "1")))
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    workers = int(os.environ.get("WORKERS", "0"))
    loader = DataLoader(
        Noise(),
        batch_size=16,
        num_workers=workers,
        prefetch_factor=int(os.environ.get("PREFETCH", "2")) if workers else None,
    )
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
