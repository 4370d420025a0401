"""Run in a process of its own: true peaks of small models at several batches, as JSON lines.

For each model: the trace of a step at the first batch (as a capture records it), and for every
batch what torch's allocator says was live at the peak of a step.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.before(x)).chunk(3, -1)
        q, k, v = (p.view(batch, length, self.heads, -1).transpose(1, 2) for p in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.between(x))))


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(2000, 128)
        self.blocks = nn.Sequential(*(Block(128, 4) for _ in range(4)))
        self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 2000, bias=False)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.embedding(x)))).flatten(0, 1)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, 32, 3, padding=1), nn.Linear(32, 10)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(32, 16, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
                nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32),
            )
            for _ in range(4)
        )  # fmt: skip

    def forward(self, x):
        x = F.relu(self.stem(x))
        for block in self.blocks:
            x = F.relu(x + block(x))
        return self.head(x.mean((2, 3)))


def classic():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 256, 512), nn.ReLU(), nn.Dropout(0.1), nn.Linear(512, 10),
    )  # fmt: skip


def layers():
    inner = [m for _ in range(6) for m in (nn.Linear(512, 512), nn.Tanh())]
    return nn.Sequential(*inner, nn.Linear(512, 10))


def images(batch):
    return torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,))


def vectors(batch):
    return torch.randn(batch, 512), torch.randint(0, 10, (batch,))


def tokens(batch):
    return torch.randint(0, 2000, (batch, 64)), torch.randint(0, 2000, (batch * 64,))


MODELS = {
    "classic": (classic, images, 32), "residual": (Residual, images, 16),
    "layers": (layers, vectors, 64), "language": (Language, tokens, 4),
}  # fmt: skip


def record(model, optimizer, data, batch, path, *, memory):
    x, y = data(batch)
    optimizer.zero_grad()
    with profile(
        activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=memory
    ) as profiler:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    profiler.export_chrome_trace(str(path))


def peak(path):
    """Most bytes live at once, beyond what was live at the start."""
    events = json.loads(path.read_text())["traceEvents"]
    moves = sorted((e["ts"], e["args"]["Bytes"]) for e in events if e.get("name") == "[memory]")
    level = most = 0
    for _, moved in moves:
        level += moved
        most = max(most, level)
    return most


def main(folder: Path) -> None:
    torch.manual_seed(0)
    for name, (make, data, first) in MODELS.items():
        model = make()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        trace = folder / f"{name}.json"
        record(model, optimizer, data, first, trace, memory=False)
        peaks = {}
        for batch in (first, 2 * first, 4 * first):
            record(model, optimizer, data, batch, folder / "memory.json", memory=True)
            peaks[batch] = peak(folder / "memory.json")
        held = sum(p.numel() * p.element_size() for p in model.parameters())
        print(json.dumps({"name": name, "trace": str(trace), "parameters": held, "peaks": peaks}))


main(Path(sys.argv[1]))
