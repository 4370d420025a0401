"""What a move to another kind of accelerator would need done, as far as the run shows it.

Each item has a weight: small is a line or a package, medium a day or two, large is code to write.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..accelerators.catalogue import Accelerator
from . import curves
from .basis import Basis

WEIGHTS = ("none", "small", "medium", "large")
SMALL, MEDIUM, LARGE = WEIGHTS[1:]


@dataclass(frozen=True)
class Library:
    """A package for CUDA: what it takes on TPUs and on ROCm; None: it runs there as it is."""

    tpu: tuple[str, str] | None
    rocm: tuple[str, str] | None


_SDPA = "scaled_dot_product_attention of torch, or splash attention"
_ATTENTION = Library((MEDIUM, _SDPA), (SMALL, "its build for ROCm"))
_KERNELS = "kernels of its own: write them anew (Pallas)"
_SPARSE = Library((LARGE, "gather and scatter with fixed sizes"), (MEDIUM, "build it with hipcc"))
# Sources: the packages' own pages on what they support.
LIBRARIES = {
    "flash_attn": _ATTENTION, "xformers": _ATTENTION, "flashinfer": _ATTENTION,
    "apex": Library((MEDIUM, "torch's own optimizers and norms"), (SMALL, "its build for ROCm")),
    "transformer_engine": Library(
        (LARGE, "bf16 layers of torch"), (MEDIUM, "AMD's build of it"),
    ),
    "bitsandbytes": Library((LARGE, "bf16 states, or Adafactor"), (MEDIUM, "its ROCm backend")),
    "deepspeed": Library((LARGE, "FSDP of torch_xla"), (SMALL, "its build for ROCm")),
    "triton": Library((LARGE, _KERNELS), None),
    "torch_scatter": _SPARSE, "torch_sparse": _SPARSE, "torch_cluster": _SPARSE,
    "spconv": Library((LARGE, "dense convolutions"), (LARGE, "no build for ROCm: port it")),
    "MinkowskiEngine": Library((LARGE, "dense layers"), (LARGE, "no build for ROCm: port it")),
    "mamba_ssm": Library((LARGE, _KERNELS), (MEDIUM, "build it with hipcc")),
    "causal_conv1d": Library((MEDIUM, "a grouped convolution"), (MEDIUM, "build it with hipcc")),
    "cupy": Library((LARGE, "numpy on the host, or jax.numpy"), (SMALL, "its package for ROCm")),
    "pycuda": Library((LARGE, _KERNELS), (LARGE, "HIP kernels")),
    "numba.cuda": Library((LARGE, _KERNELS), (LARGE, "HIP kernels")),
    "torch_tensorrt": Library((MEDIUM, "torch_xla's compiler"), (MEDIUM, "torch.compile")),
    "tensorrt": Library((MEDIUM, "torch_xla's compiler"), (MEDIUM, "MIGraphX")),
    "nvidia.dali": Library((MEDIUM, "a loader on the host"), (MEDIUM, "rocAL, or the host")),
    "cudf": Library((MEDIUM, "pandas or polars"), (MEDIUM, "pandas or polars")),
    "vllm": Library((SMALL, "its backend for TPUs"), (SMALL, "its build for ROCm")),
}  # fmt: skip
SEEN_AS = {"torchvision": (SMALL, "its own operators (nms, roi_align) run on the host there")}
# triton is loaded by torch.compile, too: only a job's own kernels need work, which is not seen
MAYBE = {
    "triton": "triton is loaded: nothing to do where only torch.compile uses it; Triton kernels of "
    "your own would be written anew (Pallas)",
}


def work(basis: Basis, device: Accelerator, precision: str | None) -> tuple[list[str], str | None]:
    """Work items, the heaviest first, and the heaviest weight; none for the same kind of device.

    Without a capture nothing is known: no items and None.
    """
    if not basis.operators:
        return [], None
    items = _precision(basis, device, precision)
    if device.vendor != "NVIDIA":
        items += _platform(basis, device)
        items += _operators(basis, device)
        items += _libraries(basis, device)
    items.sort(key=lambda item: -WEIGHTS.index(item[0]))
    heaviest = items[0][0] if items else "none"
    return [f"{weight}: {text}" for weight, text in items], heaviest


def _platform(basis: Basis, device: Accelerator) -> list[tuple[str, str]]:
    if device.kind == "tpu":
        items = [(MEDIUM, "run through torch_xla or JAX")]
        if basis.batch_sizes > 1:
            items.append((
                SMALL, f"{basis.batch_sizes} sizes of batch were seen, and each shape compiles "
                "anew: pad, or drop the last batch",
            ))  # fmt: skip
        return items
    if device.vendor == "AMD":
        return [(SMALL, "use the ROCm build of PyTorch")]
    return [(SMALL, f"use {device.vendor}'s build of PyTorch")]


def _operators(basis: Basis, device: Accelerator) -> list[tuple[str, str]]:
    items = []
    if basis.dynamic_operators and device.kind == "tpu":
        names = ", ".join(basis.dynamic_operators)
        items.append((
            MEDIUM, f"take {names} out of the step: their results depend on values, which breaks "
            "the compiled graph",
        ))  # fmt: skip
    known = {name.replace("_", "") for name in (*LIBRARIES, *SEEN_AS)}
    own = {n.partition("::")[0] for n in basis.custom_operators} | set(basis.operator_libraries)
    custom = sorted(n for n in own if n.strip("_").replace("_", "") not in known)
    if custom:
        used = [n for n in basis.custom_operators if n.partition("::")[0] in custom]
        names = ", ".join((used or custom)[:5])
        how = "write them anew (Pallas)" if device.kind == "tpu" else "build them with hipcc"
        weight = LARGE if device.kind == "tpu" else MEDIUM
        items.append((weight, f"custom operators with CUDA kernels ({names}): {how}"))
    return items


def _libraries(basis: Basis, device: Accelerator) -> list[tuple[str, str]]:
    items = []
    for name in basis.libraries:
        library = LIBRARIES.get(name)
        todo = None if library is None else library.tpu if device.kind == "tpu" else library.rocm
        if todo is not None:
            told = MAYBE.get(name)
            items.append((SMALL, told) if told else (todo[0], f"{name}: {todo[1]}"))
        elif name in SEEN_AS and device.kind == "tpu" and name in basis.operator_libraries:
            weight, text = SEEN_AS[name]
            items.append((weight, f"{name}: {text}"))
    return items


def _precision(basis: Basis, device: Accelerator, precision: str | None) -> list[tuple[str, str]]:
    wanted = precision or basis.precision
    if wanted is None:
        return []
    runs = curves.usable_precision(device, wanted)
    if runs is None:
        return [(LARGE, f"{wanted} does not run there")]
    if device.kind == "tpu" and wanted == "fp16":
        return [(SMALL, "use bf16 instead of fp16; the loss needs no scaling then")]
    if wanted not in (runs, "fp32"):
        return [(SMALL, f"{wanted} is not native there: it runs as {runs}")]
    return []
