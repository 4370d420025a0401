"""A trainer that keeps a full, synced checkpoint of every fifth step, "to be safe".

fixed by: checkpoint_sparse.py
expect: bottleneck=checkpoint-bound, checkpoint>=0.5
"""

import os
import tempfile
from pathlib import Path

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "120"))
EVERY = int(os.environ.get("EVERY", "5"))
BATCH, VOCABULARY, WIDTH = 16, 40_000, 192


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH, sparse=False)
        self.recur = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, 16)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.recur(self.embed(ids))[0]).flatten(0, 1)


def save(path: Path, net: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Written beside, synced, then put in place: a crash never leaves half a file."""
    fresh = path.with_suffix(".new")
    with fresh.open("wb") as file:
        torch.save({"step": step, "net": net.state_dict(), "opt": optimizer.state_dict()}, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def main() -> None:
    torch.manual_seed(0)
    net = Tagger()
    optimizer = torch.optim.Adam(net.parameters())
    ids = torch.randint(0, VOCABULARY, (BATCH, 24))
    labels = torch.randint(0, 16, (BATCH * 24,))
    with tempfile.TemporaryDirectory() as folder:
        for step in range(1, STEPS + 1):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(ids), labels).backward()
            optimizer.step()
            if step % EVERY == 0:
                save(Path(folder, "last.pt"), net, optimizer, step)


if __name__ == "__main__":
    main()
