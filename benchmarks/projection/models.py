"""Models of public tables that no library has, from their published configurations.

Only what costs time is here: layers and their shapes. Where sizes follow the data (text lengths,
proposals), the published or typical ones stand in; being the same on every accelerator, they move
a projection little.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .diffusion import Unet
from .networks import (
    FRAMES,
    TEXT,
    Decoder,
    Jasper,
    MaskRcnn,
    Ncf,
    Ssd300,
    Tacotron2,
    TransformerXl,
)

Make = Callable[[str], nn.Module]  # of the input shape's text
Sizes = Callable[[str], dict[str, tuple[int, ...]]]  # inputs without the batch; first is the batch


def _number(pattern: str, shape: str, otherwise: int = 1) -> int:
    found = re.search(pattern, shape)
    return int(found[1]) if found else otherwise


def _xl(shape: str) -> nn.Module:
    return TransformerXl(_number(r"(?:seq|tgt)(\d+)", shape), _number(r"mem(\d+)", shape, 0))


LLAMAS = {"llama3-8b": (4096, 32, 32, 8, 14336, 128256),
          "llama3-70b": (8192, 80, 64, 8, 28672, 128256)}  # fmt: skip
UBATCH = 512  # tokens that llama.cpp reads at once


def _llama(name: str) -> Make:
    def make(shape: str) -> nn.Module:
        tokens = _number(r"(?:pp|tg)(\d+)", shape)
        # midway through the answer, or the prompt's blocks
        return Decoder(LLAMAS[name], held=tokens // 2, gated=True)

    return make


def _llama_inputs(name: str) -> Sizes:
    width = LLAMAS[name][0]
    return lambda shape: {"x": (UBATCH if shape.startswith("pp") else 1, width)}


def _beams(shape: str) -> int:
    """Sequences in flight for one that is answered."""
    return _number(r"beam(?:width|search)(\d+)", shape)


def _frames(shape: str) -> int:
    """10 ms each; utterances of LibriSpeech are padded to some 15 s."""
    found = re.search(r"audio(\d+(?:\.\d+)?)s", shape)
    return int(float(found[1]) * 100) if found else 1500


BUILT: dict[str, tuple[Make, Sizes]] = {
    "ssd300-resnet50": (lambda _: Ssd300(), lambda _: {"x": (3, 300, 300)}),
    "maskrcnn-r50-fpn": (lambda _: MaskRcnn(), lambda _: {"x": (3, 800, 1216)}),
    "jasper-10x5": (lambda _: Jasper(), lambda s: {"x": (64, _frames(s))}),
    "tacotron2": (lambda _: Tacotron2(), lambda _: {"text": (TEXT,), "mels": (FRAMES, 80)}),
    "transformer-xl-base": (_xl, lambda s: {"ids": (_number(r"(?:seq|tgt)(\d+)", s),)}),
    "ncf": (lambda _: Ncf(), lambda _: {"user": (), "item": ()}),
    "stable-diffusion-v1-5-txt2img": (lambda _: Unet(), lambda _: {"x": (4, 64, 64)}),
    "stable-diffusion-v1-5-inpaint": (lambda _: Unet(), lambda _: {"x": (4, 64, 64)}),
    "stable-diffusion-v1-5-img2img": (lambda _: Unet(), lambda _: {"x": (4, 64, 64)}),
    # a translation's decoder at the middle of its 128 tokens
    "transformer-6l-512-translate": (
        lambda _: Decoder((512, 6, 8, 8, 2048, 31538), held=64, across=128),
        lambda _: {"x": (1, 512)},
    ),
    "t5-base-translate": (
        lambda _: Decoder((768, 12, 12, 12, 3072, 32128), held=32, across=32),
        lambda _: {"x": (1, 768)},
    ),
    **{f"{n}-f16": (_llama(n), _llama_inputs(n)) for n in LLAMAS},
}
IDS = ("text", "ids", "user", "item")


def known(workload: str) -> str | None:
    """The name that a workload's model stands under here."""
    name = re.sub(r"-(?:decode|prefill|beam|sampling)$", "", workload)
    return name if name in BUILT else None


def find(workload: str, shape: str) -> tuple[nn.Module, Callable[[int, torch.dtype], Any]] | None:
    """The model on the meta device and what makes its inputs; None when it is not here."""
    name = known(workload)
    if name is None:
        return None
    make, sizes = BUILT[name]
    with torch.device("meta"):
        model = make(shape)
    beams = _beams(shape)

    def inputs(batch: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        return {
            key: torch.empty(
                batch * beams, *size, dtype=torch.int64 if key in IDS else dtype, device="meta"
            )
            for key, size in sizes(shape).items()
        }

    return model, inputs
