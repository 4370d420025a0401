"""Copies between host and device, as the host saw them: Tensor.to, .cuda and .cpu.

A copy that ran asynchronously shows the time of its launch only.
"""

import sys

from .. import ring, wire
from ..patching import Hook, undress
from ..threads import inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

hook = Hook("copies")
clock = ring.clock
Tensor: "Any" = sys.modules["torch"].Tensor
torch_c: "Any" = sys.modules["torch"]._C


def install(module: "Any") -> None:
    """torch._tensor"""
    for name in ("to", "cuda", "cpu"):
        hook.wrap(module.Tensor, name, _copy)


def _copied(before: "Any", after: "Any", start: int, end: int) -> None:
    with torch_c.DisableTorchFunction():  # subclasses and modes of the job see nothing of this
        if after.device.type == before.device.type or torch_c._get_tracing_state():
            return
        size = after.numel() * after.element_size() >> 10
    ring.emit(start, end, ring.meta(wire.H2D, 0, size) | inside().other)


def _copy(original: "Any") -> "Any":
    def copy(self: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        start = clock()
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            undress(error)
            raise
        if result is self or hook.off:
            return result
        end = clock()
        try:
            if result.__class__ is not Tensor or result.is_cpu is not self.is_cpu:
                _copied(self, result, start, end)
        except Exception as error:
            hook.fail(error)
        return result

    return copy
