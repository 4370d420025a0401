"""A trainer that keeps a full, synced checkpoint of every fourth step, "to be safe".

fixed by: checkpoint_sparse.py
expect: bottleneck=checkpoint-bound, checkpoint>=0.5
"""

import os
import tempfile
from pathlib import Path

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "120"))
EVERY = int(os.environ.get("EVERY", "4"))
BATCH, LENGTH, VOCABULARY, WIDTH, TAGS = 8, 32, 40_000, 192, 16


class Tagger(nn.Module):
    """A large vocabulary of which a step touches few rows, and a small network over it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH, sparse=True)
        self.layers = nn.Sequential(
            nn.Conv1d(WIDTH, WIDTH, 5, padding=2),
            nn.ReLU(),
            nn.Conv1d(WIDTH, WIDTH, 5, padding=2),
            nn.ReLU(),
            nn.Conv1d(WIDTH, TAGS, 1),
        )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.layers(self.embed(ids).transpose(1, 2))


def save(path: Path, step: int, **parts: nn.Module | torch.optim.Optimizer) -> None:
    """Written beside, synced, then put in place: a crash never leaves half a file."""
    fresh = path.with_suffix(".new")
    with fresh.open("wb") as file:
        torch.save({"step": step} | {name: p.state_dict() for name, p in parts.items()}, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the model is too small to share between cores
    net = Tagger()
    rows = torch.optim.SparseAdam(net.embed.parameters())
    rest = torch.optim.Adam(net.layers.parameters())
    ids = torch.randint(0, VOCABULARY, (BATCH, LENGTH))
    labels = torch.randint(0, TAGS, (BATCH, LENGTH))
    with tempfile.TemporaryDirectory() as folder:
        for step in range(1, STEPS + 1):
            rows.zero_grad()
            rest.zero_grad()
            nn.functional.cross_entropy(net(ids), labels).backward()
            rows.step()
            rest.step()
            if step % EVERY == 0:
                save(Path(folder, "last.pt"), step, net=net, rows=rows, rest=rest)


if __name__ == "__main__":
    main()
