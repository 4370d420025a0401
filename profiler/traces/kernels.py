"""Work that shapes do not tell, by names: of operators of other libraries, and of kernels.

A kernel of torch.compile, of a custom extension or below an operator without shapes is known by its
name alone, which says whether it multiplies matrices or passes over memory.
"""

from __future__ import annotations

from .flops import is_pass, is_product

# Of operators ("fbgemm::split_embedding_codegen_lookup_sgd_function") and of kernels
# ("at::native::vectorized_elementwise_kernel", "cudnn::bn_bw_1C11_kernel_new")
_PASSES = (
    "elementwise", "embedding", "norm", "softmax", "dropout", "pool", "upsample", "bn_fw", "bn_bw",
    "reduce", "copy", "catarray", "gather", "scatter", "index", "fill", "multi_tensor", "sort",
    "transpose", "nchwtonhwc", "nhwctonchw", "permute", "triton_poi_", "triton_red_", "triton_per_",
)  # fmt: skip
# In the whole name: CUTLASS and cuDNN tell what a kernel does among its template's arguments
_PRODUCTS = (
    "gemm", "matmul", "linear", "conv", "attn", "attention", "cudnn", "fprop", "dgrad", "wgrad",
    "winograd", "cutlass", "flash", "fmha", "triton_tem_",
)  # fmt: skip
_UNNAMED = "(anonymous namespace)::"


def by_name(name: str) -> str | None:
    """What an operator or kernel of unknown work is: "product", "pass" over memory, or None."""
    bare = name.rpartition("::")[2]
    if is_pass(bare):
        return "pass"
    if is_product(bare):
        return "product"
    short, whole = short_name(name).lower(), name.lower()
    if "nccl" in short or "rccl" in short:
        return None
    if any(word in short for word in _PASSES):
        return "pass"
    return "product" if any(word in whole for word in _PRODUCTS) else None


def short_name(name: str) -> str:
    """A kernel's name without its return type, template arguments and parameters."""
    bare = name.replace(_UNNAMED, "").removeprefix("void ")
    return bare.partition("<")[0].partition("(")[0].strip() or name


def copy_name(name: str) -> str | None:
    """ "HtoD pageable" of "Memcpy HtoD (Pageable -> Device)"; None of anything else."""
    for direction in ("HtoD", "DtoH"):
        if direction in name:
            kind = "pageable" if "Pageable" in name else "pinned" if "Pinned" in name else ""
            return f"{direction} {kind}".strip()
    return None
