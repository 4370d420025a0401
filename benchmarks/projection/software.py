"""What a row owes to its software and its host: both differ between the published tables.

Parameters in software.toml: costs a framework has a call, and factors of single test systems
("origin|accelerator"), drawn towards 1 by the fit. They are estimated from other workloads of the
same series and never from the pair that is judged; a series that was not in the fit has factor 1.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from accelprof.profiler.advisor import curves
from accelprof.profiler.advisor.curves import Parameters

from .table import Row

# A synchronised step around forward and backward, the batch copied from pageable memory inside
SYNCHRONOUS = "ryujaehun/pytorch-gpu-benchmark"
IMAGE = 3 * 224 * 224  # numbers of an image in that series
BASELINES = ("-torch", "-tf", "-tf-fp16", "-pytorch", "-huggingface", "torchscript",
             "torchscript-fp16")  # fmt: skip


@cache
def parameters() -> Parameters:
    """The curves' parameters and those of the tables' software."""
    own = tomllib.loads((Path(__file__).parent / "software.toml").read_text("utf-8"))
    return {**curves.parameters(), **own}


def is_engine(framework: str) -> bool:
    """Inference engines and hand-written kernels; their pages list the plain framework beside."""
    if "fastertransformer" in framework:
        return not framework.endswith(BASELINES)
    return "tensorrt" in framework or "trt" in framework or framework == "llama.cpp"


def call_class(framework: str) -> str:
    """Which cost of a call on the host: section call_s."""
    if is_engine(framework):
        return "engine"
    for word, name in (("script", "script"), ("xla", "xla"), ("compile", "compiled")):
        if word in framework:
            return name
    for start in ("mxnet", "tensorflow", "jax"):
        if framework.startswith(start):
            return {"jax": "xla"}.get(start, start)
    return "eager"


def fusion_class(framework: str) -> str:
    """How much element-wise work is left after fusing: section fusion."""
    called = call_class(framework)
    if called == "xla" and framework.startswith("tensorflow"):
        return "tensorflow_xla"
    if called == "tensorflow" and "nvidia" not in framework:
        return "eager"
    return "eager" if called == "script" else called


@dataclass(frozen=True)
class Traits:
    """What is known of a row's software, from its columns alone."""

    call: str
    fusion: str
    family: str  # framework and way of running, of one page's kind
    system: str
    synchronous: bool
    relayout: bool  # NCHW tensors, which tensor-core convolutions first turn around
    narrow: bool  # activations of 8 bits between the products
    feeds: bool  # each sample costs the host time

    @classmethod
    def of(cls, row: Row) -> Traits:
        framework, origin = row.framework, row.origin
        family = call_class(framework) + ("-unpadded" if "eff-" in framework else "")
        if row.task == "train":
            family += "-train"
        if framework.startswith("tensorflow"):
            family = "tensorflow-" + family
        graph = framework.startswith("tensorflow1") and row.task == "infer"
        return cls(
            call_class(framework), fusion_class(framework), f"{origin}|{family}",
            f"{origin}|{row.accelerator}", origin == SYNCHRONOUS,
            ("nchw" in framework or origin == SYNCHRONOUS) and "16" in row.precision,
            row.precision == "int8", graph and "x" in row.shape,
        )  # fmt: skip


class Names:
    """A name a row, and what a section of the parameters says of it."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = sorted(set(names))
        where = {name: i for i, name in enumerate(self.names)}
        self.index = torch.tensor([where[name] for name in names])

    def column(self, section: dict[str, Any], otherwise: float = 1.0) -> torch.Tensor:
        values = [torch.as_tensor(section.get(n, otherwise)).double() for n in self.names]
        return torch.stack(values)[self.index]


class Columns:
    """The traits of many rows, as columns."""

    def __init__(self, traits: Sequence[Traits], size: torch.Tensor, batch: Sequence[int]) -> None:
        self.call = Names([t.call for t in traits])
        self.fused = Names([t.fusion for t in traits])
        self.family = Names([t.family for t in traits])
        self.system = Names([t.system for t in traits])
        self.together = Names([f"{t.system}|{t.family.split('|')[1]}" for t in traits])
        self.eager = torch.tensor([t.call == "eager" for t in traits])
        self.synchronous = torch.tensor([t.synchronous for t in traits])
        self._relayout = torch.tensor([t.relayout for t in traits])
        self._narrow = torch.tensor([t.narrow for t in traits])
        self._feeds = torch.tensor([t.feeds for t in traits])
        self.batch = torch.tensor([float(b) for b in batch]).double()
        self.input_bytes = torch.where(self.synchronous, self.batch * IMAGE * size, 0.0)

    def call_s(self, model: Parameters) -> torch.Tensor:
        return self.call.column(model["call_s"])

    def sample_s(self, model: Parameters) -> torch.Tensor:
        return torch.where(self._feeds, self.batch * model["host"]["sample_s"], 0.0)

    def copy_s(self, model: Parameters) -> torch.Tensor:
        return self.input_bytes / model["host"]["pageable_bytes_per_s"]

    def fusion(self, model: Parameters) -> torch.Tensor:
        return self.fused.column(model["fusion"])

    def relayout(self, model: Parameters) -> torch.Tensor:
        return torch.where(self._relayout, 1.0 + model["host"]["relayout"], 1.0)

    def narrow(self, model: Parameters) -> torch.Tensor:
        return torch.where(self._narrow, model["host"]["narrow"], 1.0)

    def host_factor(self, model: Parameters) -> torch.Tensor:
        return (
            self.family.column(model["family"])
            * self.system.column(model["system_host"])
            * self.together.column(model["system_family"])
        )

    def device_factor(self, model: Parameters) -> torch.Tensor:
        return self.system.column(model["system_device"])
