"""Backward and optimizer steps."""

import weakref

from .. import capture, ring, wire
from ..facts import fact
from ..patching import Hook, inside, undress
from . import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

backwards, optimizers = Hook("backward"), Hook("optimizer")
clock, cpu_clock = ring.clock, ring.cpu_clock
RAISED = wire.F_RAISED << wire.FLAG_SHIFT


def install_backward(module: "Any") -> None:
    """torch.autograd; Tensor.backward calls what stands here."""
    for name in ("backward", "grad"):
        backwards.wrap(module, name, _backward)


def _backward(original: "Any") -> "Any":
    def backward(*args: "Any", **kwargs: "Any") -> "Any":
        outermost, meta = not inside.backward, wire.BACKWARD
        inside.backward = True
        start, cpu = clock(), cpu_clock()
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            meta |= RAISED
            undress(error)
            raise
        finally:
            if outermost:
                inside.backward = False
                if not backwards.off:
                    try:
                        modules.trained()
                        spent = min((cpu_clock() - cpu) // 1000, wire.VALUE_MAX)
                        ring.emit(start, clock(), meta | spent << wire.VALUE_SHIFT)
                    except Exception as error:
                        backwards.fail(error)

    return backward


def install_optimizer(module: "Any") -> None:
    """torch.optim.optimizer; its own hooks run around every optimizer's step."""
    module.register_optimizer_step_pre_hook(_before)
    module.register_optimizer_step_post_hook(_after)


_started: "dict[int, int]" = {}
_known: "dict[int, tuple[int, Any]]" = {}  # id: its number, a weak reference that forgets it
_count = 0


def _before(optimizer: "Any", args: "Any", kwargs: "Any") -> None:
    _started[id(optimizer)] = clock()


def _after(optimizer: "Any", args: "Any", kwargs: "Any") -> None:
    end = clock()
    start = _started.pop(id(optimizer), None)
    if start is None or optimizers.off:
        return
    try:
        known = _known.get(id(optimizer))
        ident = known[0] if known is not None else _number(optimizer)
        ring.emit(start, end, wire.OPTIMIZER | ident << wire.IDENT_SHIFT)
        modules.stepped(known is None)
        if ident == 1:
            capture.tick()
    except Exception as error:
        optimizers.fail(error)


def _number(optimizer: "Any") -> int:
    """Numbers an optimizer and tells its facts, from metadata alone."""
    global _count
    _count += 1
    ident, key = min(_count, wire.IDENT_MAX), id(optimizer)
    _known[key] = (ident, weakref.ref(optimizer, lambda _: _known.pop(key, None)))
    tensors = [p for group in optimizer.param_groups for p in group["params"]]
    group = optimizer.param_groups[0] if optimizer.param_groups else {}
    fact(
        wire.FACT_OPTIMIZER,
        id=ident,
        name=type(optimizer).__name__,
        tensors=len(tensors),
        parameters=sum(p.numel() for p in tensors),
        foreach=group.get("foreach"),
        fused=group.get("fused"),
        where=None,
    )
    return ident
