"""Workload names of public tables as torch modules on the meta device.

A name is built when, with its suffixes left off, it is a model of torchvision, of timm, or one of
the transformers configurations below. No weights are downloaded: shapes are all that is needed.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import nn

from . import models as published

SUFFIXES = ("-torchvision", "-timm", "-transformers", "-hf", "-huggingface")
# Names of pages for what a library calls otherwise: same layers, or the difference is stated.
SYNONYMS = {
    "resnet50v15": "resnet50",  # NVIDIA's v1.5 is torchvision's: stride in the 3x3 convolution
    "resnet50v1": "resnet50",
    "seresnext10132x4d": "seresnext101_32x4d",
    "seresnext5032x4d": "seresnext50_32x4d",
    "efficientnetwideseb0": "efficientnet_b0",  # wider squeeze layers: < 1 % of the FLOPs
    "efficientnetwideseb4": "efficientnet_b4",
    "vitb16": "vit_b_16", "vitl16": "vit_l_16", "vitb32": "vit_b_32", "vitl32": "vit_l_32",
}  # fmt: skip

# hidden size, layers, heads, intermediate, vocabulary
ENCODERS = {
    "bert-base": (768, 12, 12, 3072, 30522), "bert-large": (1024, 24, 16, 4096, 30522),
    "bert-tiny": (128, 2, 2, 512, 30522), "bert-mini": (256, 4, 4, 1024, 30522),
    "bert-small": (512, 4, 8, 2048, 30522), "bert-medium": (512, 8, 8, 2048, 30522),
    "roberta-base": (768, 12, 12, 3072, 50265), "roberta-large": (1024, 24, 16, 4096, 50265),
    "xlm-roberta-base": (768, 12, 12, 3072, 250002),
    "xlm-roberta-large": (1024, 24, 16, 4096, 250002),
    "distilbert-base": (768, 6, 12, 3072, 30522), "bert-glue": (768, 12, 12, 3072, 30522),
}  # fmt: skip
# hidden size, layers, heads, vocabulary
DECODERS = {
    "gpt2": (768, 12, 12, 50257), "gpt2-small": (768, 12, 12, 50257),
    "gpt2-medium": (1024, 24, 16, 50257), "gpt2-large": (1280, 36, 20, 50257),
    "gpt2-xl": (1600, 48, 25, 50257), "distilgpt2": (768, 6, 12, 50257),
    # MPT: the same block with other position codes
    "mpt-125m": (768, 12, 12, 50368), "mpt-1b": (2048, 24, 16, 50368),
    "mpt-3b": (2560, 32, 20, 50368), "mpt-7b": (4096, 32, 32, 50368),
    "mpt-13b": (5120, 40, 40, 50368), "mpt-30b": (7168, 48, 56, 50368),
    "mpt-70b": (8192, 80, 64, 50368),
}  # fmt: skip
DTYPES = {
    "fp64": torch.float64, "fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16,
    "amp-fp16": torch.float16, "bf16": torch.bfloat16, "amp-bf16": torch.bfloat16,
}  # fmt: skip


def dtype_of(precision: str) -> torch.dtype:
    """What activations are held in; engines of 8 and 4 bits hold fp16 between products."""
    return DTYPES.get(precision, torch.float16)


class Unknown(Exception):
    """The workload cannot be built, and why."""


def plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@cache
def torchvision_names() -> dict[str, str]:
    try:
        from torchvision import models
    except ImportError:
        return {}
    keep = models.list_models(module=models)
    return {plain(n): n for n in keep}


@cache
def timm_names() -> dict[str, str]:
    try:
        import timm
    except ImportError:
        return {}
    return {plain(n): n for n in timm.list_models()}


def _bare(workload: str) -> str:
    for suffix in SUFFIXES:
        workload = workload.removesuffix(suffix)
    return workload


def image_model(workload: str, size: int, framework: str) -> Callable[[], nn.Module] | None:
    """A constructor of a classification model; None when no library knows the name."""
    name = plain(_bare(workload))
    name = plain(SYNONYMS.get(name, name))
    # the library that the row was measured with comes first: both have a resnet50
    order = (timm_names, torchvision_names)
    if workload.endswith("-torchvision") or "timm" not in framework:
        order = (torchvision_names, timm_names)
    for names in order:
        found = names().get(name)
        if found is not None:
            return _constructor(names is timm_names, found, size)
    return None


def _constructor(from_timm: bool, name: str, size: int) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        if from_timm:
            import timm

            try:
                return timm.create_model(name, pretrained=False, img_size=size)
            except TypeError:
                return timm.create_model(name, pretrained=False)
        from torchvision import models

        options: dict[str, Any] = {}
        if name.startswith("vit_"):
            options["image_size"] = size
        if name in ("googlenet", "inception_v3"):
            options |= {"aux_logits": False, "init_weights": False}
        return models.get_model(name, weights=None, **options)

    return build


def _side(shape: str) -> int:
    found = re.match(r"(\d+)x(\d+)", shape)
    return int(found[1]) if found else 224


def _length(shape: str) -> int:
    found = re.search(r"seq(?:len)?-?(\d+)", shape)
    if found is None:
        raise Unknown(f"no sequence length in {shape!r}")
    return int(found[1])


def transformer(workload: str) -> tuple[str, str] | None:
    """(kind, configuration name) of a transformers model; None when it is none."""
    bare = _bare(workload).replace("_", "-")
    for kind, table in (("encoder", ENCODERS), ("decoder", DECODERS)):
        for name in sorted(table, key=len, reverse=True):
            if bare == name or bare.startswith(name + "-"):
                return kind, name
    return None


def _encoder(workload: str, name: str) -> nn.Module:
    from transformers import BertConfig, BertForPreTraining, BertForQuestionAnswering, BertModel

    hidden, layers, heads, inner, vocabulary = ENCODERS[name]
    config = BertConfig(
        vocab_size=vocabulary, hidden_size=hidden, num_hidden_layers=layers,
        num_attention_heads=heads, intermediate_size=inner,
    )  # fmt: skip
    config._attn_implementation = "sdpa"
    if "pretrain" in workload or "mlm" in workload:
        return BertForPreTraining(config)
    if "encoder" in workload:
        return BertModel(config, add_pooling_layer=False)
    return BertForQuestionAnswering(config)


def _decoder(name: str) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    hidden, layers, heads, vocabulary = DECODERS[name]
    config = GPT2Config(
        n_embd=hidden, n_layer=layers, n_head=heads, vocab_size=vocabulary, n_positions=1 << 17
    )  # fmt: skip
    config._attn_implementation = "sdpa"
    config.use_cache = False
    return GPT2LMHeadModel(config)


def _tensors(out: Any) -> list[torch.Tensor]:
    if isinstance(out, torch.Tensor):
        return [out]
    values = list(out.values()) if hasattr(out, "values") else list(out)
    return [v for v in values if isinstance(v, torch.Tensor) and v.is_floating_point()]


class Workload:
    """`step(batch)` runs forward, and for training backward, on the meta device."""

    def __init__(self, model: nn.Module, task: str, inputs: Callable[[int], Any]) -> None:
        self.model, self.train, self.inputs = model, task == "train", inputs
        self.parameters = sum(p.numel() for p in model.parameters())
        self.tensors = len(list(model.parameters()))
        model.train(self.train)

    def step(self, batch: int) -> None:
        if not self.train:
            with torch.no_grad():
                self.model(**self.inputs(batch))
            return
        for parameter in self.model.parameters():
            parameter.grad = None
        outputs = _tensors(self.model(**self.inputs(batch)))
        torch.autograd.backward(outputs, [torch.empty_like(o) for o in outputs])


def build(workload: str, task: str, framework: str, precision: str, shape: str) -> Workload:
    """The workload on the meta device; Unknown when the name or shape says too little."""
    dtype = dtype_of(precision)
    own = published.find(workload, shape)
    if own is not None:
        model, sized = own
        return Workload(model.to(dtype), task, lambda batch: sized(batch, dtype))
    found = transformer(workload)
    side = _side(shape)
    maker = None if found else image_model(workload, side, framework)
    if found is None and maker is None:
        raise Unknown("no torchvision, timm or transformers model")
    if found is not None:
        length = _length(shape)
        with torch.device("meta"):
            model = _encoder(workload, found[1]) if found[0] == "encoder" else _decoder(found[1])

        def tokens(batch: int) -> dict[str, Any]:
            ids = torch.empty(batch, length, dtype=torch.int64, device="meta")
            # a finished mask: building one would read values, and the meta device has none
            mask = torch.empty(batch, 1, length, length, dtype=dtype, device="meta")
            return {"input_ids": ids, "position_ids": ids[:1], "attention_mask": mask}

        return Workload(model.to(dtype), task, tokens)
    assert maker is not None
    with torch.device("meta"):
        model = maker()

    first = next(p for p in inspect.signature(model.forward).parameters)

    def images(batch: int) -> dict[str, Any]:
        return {first: torch.empty(batch, 3, side, side, dtype=dtype, device="meta")}

    return Workload(model.to(dtype), task, images)
