"""CUDA graphs: while one is captured no event may be asked, on any stream."""

from ..patching import Hook, undress
from ..threads import home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

hook = Hook("graphs")


def install(module: "Any") -> None:
    """torch.cuda.graphs"""
    hook.wrap(module.CUDAGraph, "capture_begin", _capturing(True))
    hook.wrap(module.CUDAGraph, "capture_end", _capturing(False))


def _capturing(begins: bool) -> "Any":
    def make(original: "Any") -> "Any":
        def capture(*args: "Any", **kwargs: "Any") -> "Any":
            timer = home.device
            if timer is not None and begins:
                timer.paused = True
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                undress(error)
                raise
            finally:
                if timer is not None and not begins:
                    timer.paused = False

        return capture

    return make
