"""DistributedDataParallel: the wait for the other ranks, which lies inside of backward.

DDP's collectives start in C++, in the middle of backward, where no wrapper of ours sees them. Once
the last gradient of this rank is there, what is left of backward is the wait for the others.
The parameter that gets the last gradient is found in the first backward; then it alone has a hook.
On the CPU only: a device goes on by itself, and the host's time says nothing of it.
"""

import sys

from .. import ring, wire
from ..facts import fact
from ..patching import Hook
from ..threads import inside
from . import training

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

hook = Hook("ddp")
clock = ring.clock
torch_c: "Any" = sys.modules["torch"]._C
_last: "Gradients | None" = None  # whose gradient came last
_at = 0  # and when


class Gradients:
    """The hooks on the parameters of one model."""

    def __init__(self, parameters: "list[Any]") -> None:
        self.number = -1  # of the parameter that came last
        self.handles = [
            one.register_post_accumulate_grad_hook(self._noting(number))
            for number, one in enumerate(parameters)
        ]

    def _noting(self, number: int) -> "Any":
        def note(parameter: "Any") -> None:
            global _last, _at
            _last, _at = self, clock()
            self.number = number

        return note

    def keep_last(self) -> None:
        """Only the last one keeps its hook."""
        for number, handle in enumerate(self.handles):
            if number != self.number:
                handle.remove()
        self.handles = []


def wrapped(model: "Any") -> None:
    """A DistributedDataParallel was made."""
    with torch_c.DisableTorchFunction():
        learning = [p for p in model.module.parameters() if p.requires_grad]
        size = sum(p.numel() * p.element_size() for p in learning)
        on_cpu = bool(learning) and all(p.device.type == "cpu" for p in learning)
        fact(
            wire.FACT_PARALLEL,
            name=type(model).__name__,
            bytes=size,
            unused=bool(getattr(model, "find_unused_parameters", False)),
        )
        if not on_cpu or not hasattr(learning[0], "register_post_accumulate_grad_hook"):
            return
        Gradients(learning)
    if _ended not in training.ends:
        training.ends.append(_ended)


def _ended(start: int, end: int) -> None:
    """A backward is over: from its last gradient on it waited."""
    global _last
    gradients = _last
    if gradients is None or hook.off:
        return
    try:
        _last = None
        if start <= _at <= end:
            ring.emit(_at, end, wire.COLLECTIVE | inside().other)
        if gradients.handles:
            gradients.keep_last()
    except Exception as error:
        hook.fail(error)
