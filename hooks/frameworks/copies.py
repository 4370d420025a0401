"""Copies between host and device, as the host saw them: Tensor.to, .cuda and .cpu.

A copy that ran asynchronously shows the time of its launch only.
"""

from .. import ring, wire
from ..patching import Hook, undress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

hook = Hook("copies")
clock = ring.clock


def install(module: "Any") -> None:
    """torch._tensor"""
    for name in ("to", "cuda", "cpu"):
        hook.wrap(module.Tensor, name, _copy)


def _copy(original: "Any") -> "Any":
    def copy(self: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        start = clock()
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            undress(error)
            raise
        if result is not self and not hook.off:
            end = clock()
            try:
                if result.device.type != self.device.type:
                    size = result.numel() * result.element_size() >> 10
                    ring.emit(start, end, ring.meta(wire.H2D, 0, size))
            except Exception as error:
                hook.fail(error)
        return result

    return copy
