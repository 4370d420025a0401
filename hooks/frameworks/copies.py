"""Copies between host and device, as the host saw them: Tensor.to, .cuda and .cpu.

A copy that runs asynchronously shows the time of its launch; the device's time is devices.py's.
"""

import sys

from .. import ring, wire
from ..facts import fact
from ..patching import Hook, undress, user_frame
from ..threads import home, inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

hook = Hook("copies")
clock = ring.clock
Tensor: "Any" = sys.modules["torch"].Tensor
torch_c: "Any" = sys.modules["torch"]._C
_told: "list[bool]" = []  # that a Dataset makes copies; once


def install(module: "Any") -> None:
    """torch._tensor"""
    for name in ("to", "cuda", "cpu"):
        hook.wrap(module.Tensor, name, _copy)


def _copied(before: "Any", after: "Any", start: int, end: int) -> bool:
    """Writes the record of a copy between devices; whether it was one."""
    with torch_c.DisableTorchFunction():  # subclasses and modes of the job see nothing of this
        if after.device.type == before.device.type or torch_c._get_tracing_state():
            return False
        size = after.numel() * after.element_size() >> 10
    here = inside()
    ring.emit(start, end, ring.meta(wire.H2D, 0, size) | here.other)
    if here.data and not _told:
        _told.append(True)
        fact(wire.FACT_COPY_IN_DATA, where=user_frame())
    return True


def _copy(original: "Any") -> "Any":
    def copy(self: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        timer = home.timer
        timed = timer is not None and inside() is home and timer.on_main()
        mark = timer.mark() if timed else None
        start = clock()
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            undress(error)
            raise
        end, copied = clock(), False
        try:
            if result is not self and not hook.off:
                if result.__class__ is not Tensor or result.is_cpu is not self.is_cpu:
                    copied = _copied(self, result, start, end)
        except Exception as error:
            hook.fail(error)
        if mark is not None:
            timer.done(wire.H2D, start, mark) if copied else timer.pool.append(mark)
        return result

    return copy
