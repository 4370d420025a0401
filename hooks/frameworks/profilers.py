"""Watches for the job's own profiler: a capture beside it would destroy it, or crash both."""

from .. import capture
from ..patching import Hook, undress
from . import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

hook = Hook("profilers")


def install_autograd(module: "Any") -> None:
    """torch.autograd.profiler"""
    for name in ("profile", "emit_nvtx", "emit_itt"):
        if hasattr(module, name):
            hook.wrap(getattr(module, name), "__init__", _constructed)
    if hasattr(module.profile, "_start_trace"):
        hook.wrap(module.profile, "_start_trace", _starting)


def install_profiler(module: "Any") -> None:
    """torch.profiler.profiler: the base of torch.profiler.profile"""
    hook.wrap(module._KinetoProfile, "__init__", _constructed)


def _constructed(original: "Any") -> "Any":
    def __init__(*args: "Any", **kwargs: "Any") -> None:
        capture.stand_aside()
        try:
            original(*args, **kwargs)
        except BaseException as error:
            undress(error)
            raise

    return __init__


def _starting(original: "Any") -> "Any":
    """The first profiler with stacks takes the code of Module.__call__ for all that come."""

    def _start_trace(*args: "Any", **kwargs: "Any") -> "Any":
        modules.disarm()
        return original(*args, **kwargs)

    return _start_trace
