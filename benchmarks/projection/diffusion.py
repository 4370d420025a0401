"""Stable Diffusion's U-Net: layers and their shapes, no more."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as attend


class Unet(nn.Module):
    """Stable Diffusion 1.5's denoiser on a 64x64 latent; guidance doubles the batch."""

    WIDTHS = (320, 640, 1280, 1280)

    def __init__(self) -> None:
        super().__init__()
        widths = self.WIDTHS
        self.start, self.end = nn.Conv2d(4, 320, 3, padding=1), nn.Conv2d(320, 4, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        skips, before = [320], 320
        for i, width in enumerate(widths):
            for _ in range(2):
                self.down.append(Block(before, width, i < 3))
                before = width
                skips.append(width)
            if i < 3:
                self.down.append(nn.Conv2d(width, width, 3, 2, 1))
                skips.append(width)
        self.middle = nn.Sequential(Block(1280, 1280, True), Block(1280, 1280, False))
        for i, width in reversed(list(enumerate(widths))):
            for _ in range(3):
                self.up.append(Block(before + skips.pop(), width, i < 3))
                before = width
            if i > 0:
                self.up.append(nn.Sequential(
                    nn.Upsample(scale_factor=2.0), nn.Conv2d(width, width, 3, padding=1)
                ))  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.start(torch.cat([x, x]))
        held = [x]
        for layer in self.down:
            x = layer(x)
            held.append(x)
        x = self.middle(x)
        for layer in self.up:
            x = layer(torch.cat([x, held.pop()], 1) if isinstance(layer, Block) else x)
        found: torch.Tensor = self.end(x)
        return found


class Block(nn.Module):
    """Two convolutions with the time's embedding, then attention to itself and to the text."""

    def __init__(self, before: int, width: int, attends: bool) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(32, before), nn.SiLU(), nn.Conv2d(before, width, 3, padding=1)
        )
        self.second = nn.Sequential(
            nn.GroupNorm(32, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1)
        )
        self.time = nn.Linear(1280, width)
        self.skip = nn.Conv2d(before, width, 1) if before != width else nn.Identity()
        self.parts: Any = nn.ModuleDict()
        if attends:
            self.parts = nn.ModuleDict({
                "norm": nn.GroupNorm(32, width), "in": nn.Conv2d(width, width, 1),
                "q1": nn.Linear(width, width, False), "kv1": nn.Linear(width, 2 * width, False),
                "o1": nn.Linear(width, width), "q2": nn.Linear(width, width, False),
                "kv2": nn.Linear(768, 2 * width, False), "o2": nn.Linear(width, width),
                "up": nn.Linear(width, 8 * width), "down": nn.Linear(4 * width, width),
                "n1": nn.LayerNorm(width), "n2": nn.LayerNorm(width), "n3": nn.LayerNorm(width),
                "out": nn.Conv2d(width, width, 1),
            })  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        embedded = self.time(x.new_empty(x.shape[0], 1280))[:, :, None, None]
        x = self.skip(x) + self.second(self.first(x) + embedded)
        if not self.parts:
            return x
        p, shape = self.parts, x.shape
        y = p["in"](p["norm"](x)).flatten(2).transpose(1, 2)
        normed = p["n1"](y)
        y = y + p["o1"](_heads(p["q1"](normed), p["kv1"](normed)))
        text = x.new_empty(x.shape[0], 77, 768)
        y = y + p["o2"](_heads(p["q2"](p["n2"](y)), p["kv2"](text)))
        a, b = p["up"](p["n3"](y)).chunk(2, -1)
        y = y + p["down"](a * nn.functional.gelu(b))
        found: torch.Tensor = x + p["out"](y.transpose(1, 2).reshape(shape))
        return found


def _heads(q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
    k, v = kv.chunk(2, -1)
    q, k, v = (t.reshape(t.shape[0], t.shape[1], 8, -1).transpose(1, 2) for t in (q, k, v))
    return attend(q, k, v).transpose(1, 2).flatten(2)
