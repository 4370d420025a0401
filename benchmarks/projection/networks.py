"""Networks of public tables that no library has: layers and their shapes, no more."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as attend


class Ssd300(nn.Module):
    """NVIDIA's SSD300: ResNet-50 without its last stage, at 38x38, and six heads."""

    def __init__(self) -> None:
        super().__init__()
        from torchvision.models import resnet50

        base = resnet50()
        base.layer3[0].conv2.stride = base.layer3[0].downsample[0].stride = (1, 1)
        self.body = nn.Sequential(
            base.conv1, base.bn1, base.relu, base.maxpool, base.layer1, base.layer2, base.layer3
        )
        widths = (1024, 512, 512, 256, 256, 256)
        middles = (256, 256, 128, 128, 128)
        more = []
        for i, (before, after) in enumerate(itertools.pairwise(widths)):
            stride, padding = (2, 1) if i < 3 else (1, 0)  # 19, 10, 5, 3, 1
            more.append(nn.Sequential(
                _norm(nn.Conv2d(before, middles[i], 1, bias=False), middles[i]),
                _norm(nn.Conv2d(middles[i], after, 3, stride, padding, bias=False), after),
            ))  # fmt: skip
        self.more = nn.ModuleList(more)
        self.heads = nn.ModuleList(
            nn.Conv2d(w, n * (4 + 81), 3, padding=1)
            for w, n in zip(widths, (4, 6, 6, 6, 4, 4), strict=True)
        )

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        maps = [self.body(x)]
        for layer in self.more:
            maps.append(layer(maps[-1]))
        return [head(m) for head, m in zip(self.heads, maps, strict=True)]


def _norm(layer: nn.Module, width: int) -> nn.Sequential:
    return nn.Sequential(layer, nn.BatchNorm2d(width), nn.ReLU(inplace=True))


class MaskRcnn(nn.Module):
    """ResNet-50 with a feature pyramid; 512 boxes (1000 at inference), 128 masks (100) an image."""

    def __init__(self) -> None:
        super().__init__()
        from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

        self.body = resnet_fpn_backbone(backbone_name="resnet50", weights=None, trainable_layers=3)
        self.search = nn.ModuleList(
            [nn.Conv2d(256, 256, 3, padding=1), nn.Conv2d(256, 3, 1), nn.Conv2d(256, 12, 1)]
        )
        self.box = nn.Sequential(
            nn.Flatten(), nn.Linear(256 * 49, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
            nn.Linear(1024, 5 * 81),
        )  # fmt: skip
        masks: list[nn.Module] = []
        for _ in range(4):
            masks += [nn.Conv2d(256, 256, 3, padding=1), nn.ReLU()]
        self.mask = nn.Sequential(
            *masks, nn.ConvTranspose2d(256, 256, 2, 2), nn.ReLU(), nn.Conv2d(256, 81, 1)
        )

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        found = []
        for level in self.body(x).values():
            hidden = self.search[0](level).relu()
            found += [self.search[1](hidden), self.search[2](hidden)]
        boxes, masks = (512, 128) if self.training else (1000, 100)
        found.append(self.box(x.new_empty(x.shape[0] * boxes, 256, 7, 7)))
        found.append(self.mask(x.new_empty(x.shape[0] * masks, 256, 14, 14)))
        return found


class Jasper(nn.Module):
    """Jasper 10x5 with dense residuals, over 64 features of sound."""

    BLOCKS = ((11, 256), (11, 256), (13, 384), (13, 384), (17, 512), (17, 512), (21, 640),
              (21, 640), (25, 768), (25, 768))  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.start = _sound(64, 256, 11, 2)
        self.blocks, across = nn.ModuleList(), nn.ModuleList()
        self.across: Any = across
        widths = [256]
        for kernel, width in self.BLOCKS:
            inner = [_sound(widths[-1] if i == 0 else width, width, kernel) for i in range(5)]
            self.blocks.append(nn.Sequential(*inner))
            self.across.append(nn.ModuleList(
                nn.Sequential(nn.Conv1d(w, width, 1, bias=False), nn.BatchNorm1d(width))
                for w in widths
            ))  # fmt: skip
            widths.append(width)
        self.end = nn.Sequential(
            _sound(768, 896, 29, 1, 2), _sound(896, 1024, 1), nn.Conv1d(1024, 29, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        held = [self.start(x)]
        for block, across in zip(self.blocks, self.across, strict=True):
            made = block(held[-1])
            for layer, value in zip(across, held, strict=True):
                made = made + layer(value)
            held.append(made.relu())
        found: torch.Tensor = self.end(held[-1]).log_softmax(1)
        return found


def _sound(before: int, after: int, kernel: int, stride: int = 1, dilation: int = 1) -> nn.Module:
    padding = dilation * (kernel - 1) // 2
    return nn.Sequential(
        nn.Conv1d(before, after, kernel, stride, padding, dilation, bias=False),
        nn.BatchNorm1d(after), nn.ReLU(inplace=True),
    )  # fmt: skip


class Cell(nn.Module):
    """An LSTM cell as its kernels are: two products, then the gates."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        self.x, self.h = nn.Linear(before, 4 * width), nn.Linear(width, 4 * width)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        a, b, _, _ = (self.x(x) + self.h(h)).sigmoid().chunk(4, -1)
        return a * b


FRAMES, TEXT = 64, 12  # of speech, and characters they take: a part of a sentence


class Tacotron2(nn.Module):
    """Text to frames of a mel spectrum, one frame after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(148, 512)
        self.encoder = nn.Sequential(*(_sound(512, 512, 5) for _ in range(3)))
        self.read = nn.ModuleList(Cell(512, 256) for _ in range(2))
        self.before = nn.Sequential(nn.Linear(80, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
        self.attention, self.decoder = Cell(256 + 512, 1024), Cell(1024 + 512, 1024)
        self.query, self.memory, self.score = (
            nn.Linear(1024, 128, False), nn.Linear(512, 128, False), nn.Linear(128, 1, False)
        )  # fmt: skip
        self.place, self.placed = nn.Conv1d(2, 32, 31, padding=15), nn.Linear(32, 128, False)
        self.out = nn.Linear(1536, 81)
        self.after = nn.Sequential(
            _sound(80, 512, 5), *(_sound(512, 512, 5) for _ in range(3)), _sound(512, 80, 5)
        )

    def forward(self, text: torch.Tensor, mels: torch.Tensor) -> torch.Tensor:
        hidden = self.encoder(self.letters(text).transpose(1, 2)).transpose(1, 2)
        sides = []
        for cell in self.read:
            state = hidden.new_empty(text.shape[0], 256)
            steps = []
            for t in range(TEXT):
                state = cell(hidden[:, t], state)
                steps.append(state)
            sides.append(torch.stack(steps, 1))
        told = torch.cat(sides, -1)
        keys = self.memory(told)
        h = d = told.new_empty(text.shape[0], 1024)
        context = told.new_empty(text.shape[0], 512)
        weights = told.new_empty(text.shape[0], 2, TEXT)
        frames = []
        before = self.before(mels)
        for t in range(FRAMES):
            h = self.attention(torch.cat([before[:, t], context], -1), h)
            placed = self.placed(self.place(weights).transpose(1, 2))
            energy = self.score((self.query(h)[:, None] + placed + keys).tanh())
            share = energy[..., 0].softmax(-1)
            context = (share[:, None] @ told)[:, 0]
            weights = torch.stack([share, share], 1)
            d = self.decoder(torch.cat([h, context], -1), d)
            frames.append(self.out(torch.cat([d, context], -1)))
        made = torch.stack(frames, 1)[..., :80].transpose(1, 2)
        found: torch.Tensor = made + self.after(made)
        return found


class TransformerXl(nn.Module):
    """The base model on WikiText-103: relative positions, memory, an adaptive softmax."""

    def __init__(self, length: int, memory: int) -> None:
        super().__init__()
        self.length, self.memory, width = length, memory, 512
        self.words = nn.Embedding(267735, width)
        self.layers: Any = nn.ModuleList(
            nn.ModuleDict({
                "qkv": nn.Linear(width, 3 * width, False), "place": nn.Linear(width, width, False),
                "out": nn.Linear(width, width, False), "up": nn.Linear(width, 2048),
                "down": nn.Linear(2048, width), "first": nn.LayerNorm(width),
                "second": nn.LayerNorm(width),
            })
            for _ in range(16)
        )  # fmt: skip
        self.head = nn.Linear(width, 20000)
        # rarer words are scored only where they occur: the share of the tokens is a typical one
        self.tails = nn.ModuleList(nn.Linear(width, n) for n in (20000, 160000, 67738))

    def forward(self, ids: torch.Tensor) -> list[torch.Tensor]:
        x = self.words(ids)
        batch = x.shape[0]
        past = x.new_empty(batch, self.memory, 512)
        for layer in self.layers:
            whole = torch.cat([past, x], 1)
            q, k, v = (
                part.reshape(batch, -1, 8, 64).transpose(1, 2)
                for part in layer["qkv"](whole).chunk(3, -1)
            )
            q = q[:, :, -self.length :]
            places = layer["place"](x.new_empty(whole.shape[1], 512)).reshape(-1, 8, 64)
            content = (q + 1.0) @ k.transpose(-2, -1)
            position = (q + 1.0) @ places.permute(1, 2, 0)
            shifted = position.clone()
            share = ((content + shifted) * 0.125).softmax(-1)
            seen = (share @ v).transpose(1, 2).reshape(batch, self.length, 512)
            x = layer["first"](x + layer["out"](seen))
            x = layer["second"](x + layer["down"](layer["up"](x).relu()))
        flat = x.reshape(-1, 512)
        found = [self.head(flat).log_softmax(-1)]
        for tail, part in zip(self.tails, (8, 16, 64), strict=True):
            found.append(tail(flat[: flat.shape[0] // part]).log_softmax(-1))
        return found


class Ncf(nn.Module):
    """Neural collaborative filtering on MovieLens-20M."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, w) for w in (64, 128) for n in (138493, 26744))
        self.layers = nn.Sequential(
            nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 64),
            nn.ReLU(),
        )  # fmt: skip
        self.last = nn.Linear(128, 1)

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        a, b, c, d = (t(i) for t, i in zip(self.tables, (user, item) * 2, strict=True))
        found: torch.Tensor = self.last(torch.cat([a * b, self.layers(torch.cat([c, d], -1))], -1))
        return found


class Decoder(nn.Module):
    """Layers of a transformer that reads tokens with `held` before them, and scores the last one.

    `sizes`: width, layers, heads, heads of keys, inner width, vocabulary.
    """

    def __init__(
        self, sizes: tuple[int, int, int, int, int, int], *, held: int, gated: bool = False,
        across: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        width, layers, heads, shared, inner, vocabulary = sizes
        self.size, self.shared = width // heads, shared
        self.held, self.across, self.gated = held, across, gated
        kv = shared * self.size
        self.layers: Any = nn.ModuleList(
            nn.ModuleDict({
                "qkv": nn.Linear(width, width + 2 * kv, False),
                "out": nn.Linear(width, width, False),
                "up": nn.Linear(width, inner * (2 if gated else 1), False),
                "down": nn.Linear(inner, width, False),
                "n1": nn.LayerNorm(width), "n2": nn.LayerNorm(width),
                **({"q2": nn.Linear(width, width, False), "out2": nn.Linear(width, width, False),
                    "n3": nn.LayerNorm(width)} if across else {}),
            })
            for _ in range(layers)
        )  # fmt: skip
        self.norm, self.words = nn.LayerNorm(width), nn.Linear(width, vocabulary, False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer["out"](self._seen(layer["qkv"](layer["n1"](x)), x))
            if self.across:
                q = self._split(layer["q2"](layer["n3"](x)))
                keys = x.new_empty(x.shape[0], self.shared, self.across, self.size)
                x = x + layer["out2"](attend(q, keys, keys).reshape(x.shape))
            up = layer["up"](layer["n2"](x))
            if self.gated:
                a, b = up.chunk(2, -1)
                up = nn.functional.silu(a) * b
            else:
                up = up.relu()
            x = x + layer["down"](up)
        found: torch.Tensor = self.words(self.norm(x[:, -1:])).softmax(-1)
        return found

    def _split(self, q: torch.Tensor) -> torch.Tensor:
        """Heads that share keys side by side: [sequence, shared, heads a share x tokens, size]."""
        return q.reshape(q.shape[0], self.shared, -1, self.size)

    def _seen(self, qkv: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        kv = self.shared * self.size
        q, _, _ = qkv.split([qkv.shape[-1] - 2 * kv, kv, kv], -1)
        q = self._split(q * 1.0)  # rotary positions
        keys = x.new_empty(x.shape[0], self.shared, self.held + x.shape[1], self.size)
        return attend(q, keys, keys).reshape(x.shape)
