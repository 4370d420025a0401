"""What the job has loaded beside torch: told once, for the work that another accelerator needs."""

import sys

from .. import wire
from ..facts import fact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST = 400
# Namespaces of torch's own operators with kernels for CUDA
OWN = {
    "aten", "prim", "prims", "quantized", "quantized_decomposed", "_quantized", "c10d", "symm_mem",
    "sparse", "inductor", "fsdp", "profiler", "mkldnn", "mkl", "xnnpack", "rngprims",
    "_c10d_functional", "_dtensor", "_c10d_functional_autograd", "debugprims", "streams", "onednn",
    "aoti_torch", "higher_order", "dist_inductor", "static_runtime", "internal", "cuda", "export",
    "_inductor_test", "_native", "inductor_prims", "quantization", "torch", "triton",
}  # fmt: skip
_told = False


def tell() -> None:
    """Names alone. Once a process; raises nothing that a capture's fence would not take."""
    global _told
    if _told:
        return
    _told = True
    standard: "Any" = getattr(sys, "stdlib_module_names", frozenset())
    names = {name.partition(".")[0] for name in list(sys.modules)}
    names = {n for n in names if n not in standard and not n.startswith("_")}
    names.update(name for name in ("numba.cuda", "nvidia.dali") if name in sys.modules)
    fact(wire.FACT_LIBRARIES, names=sorted(names)[:MOST], operators=_namespaces()[:MOST])


def _namespaces() -> "list[str]":
    """Namespaces of operators with CUDA kernels that are not torch's."""
    torch: "Any" = sys.modules["torch"]
    listed = getattr(torch._C, "_dispatch_get_registrations_for_dispatch_key", None)
    found = {name.partition("::")[0] for name in listed("CUDA")} if listed else set()
    return sorted(found - OWN)
