"""Backward and optimizer steps."""

import sys
import weakref
from _thread import get_ident

from .. import capture, devices, ring, wire
from ..facts import fact
from ..patching import Hook, dress, undress, user_frame
from ..ring import flush, keep
from ..threads import home, inside
from . import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

backwards, optimizers = Hook("backward"), Hook("optimizer")
clock = ring.clock
torch_c: "Any" = sys.modules["torch"]._C
RAISED, IDENT = wire.F_RAISED << wire.FLAG_SHIFT, wire.IDENT_SHIFT
BACKWARD, OPTIMIZER = wire.BACKWARD, wire.OPTIMIZER
ends: "list[Any]" = []  # called with start and end of each backward, before its record


def install_backward(module: "Any") -> None:
    """torch.autograd; Tensor.backward calls what stands here."""
    for name in ("backward", "grad"):
        backwards.wrap(module, name, _backward)


def _backward(original: "Any") -> "Any":
    def backward(*args: "Any", **kwargs: "Any") -> "Any":
        here = home if home.thread == get_ident() else inside()
        outermost, meta = not here.backward, BACKWARD | here.other
        here.backward = True
        timer: "Any" = here.timer if outermost else None
        mark = timer.mark() if timer is not None else None
        start = clock()
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            meta |= RAISED
            undress(error)
            raise
        finally:
            if outermost:
                here.backward = False
                try:
                    end = clock()
                    if ends:
                        for called in ends:
                            called(start, end)
                    keep((start, end, meta))
                    if end >= home.late:
                        flush()
                    if mark is not None:
                        timer.done(BACKWARD, start, mark)
                except Exception as error:
                    backwards.fail(error)

    return backward


def install_optimizer(module: "Any") -> None:
    """torch.optim.optimizer: each class's `step` is wrapped where torch itself wraps it.

    Not torch's global step hooks: they run inside of what torch.compile traces.
    """
    optimizers.wrap(module.Optimizer, "_patch_step_function", _patching)
    # There are none at torch's import, but where a recording begins within the program.
    kinds = [module.Optimizer]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if hasattr(kind.__dict__.get("step"), "hooked"):  # torch's own mark: one was made
            _wrap_step(kind)


def _patching(original: "Any") -> "Any":
    def _patch_step_function(self: "Any") -> None:
        original(self)
        try:
            _made[id(self)] = user_frame()
        except Exception as error:
            optimizers.fail(error)
        _wrap_step(type(self))

    return _patch_step_function


def _wrap_step(kind: "Any") -> None:
    try:
        step = kind.step
        if not isinstance(step.__dict__.get(MARK), _Mark) and not optimizers.off:
            ours = dress(_step(step), step)
            setattr(ours, MARK, _Mark())
            ours._torchdynamo_disable = True  # torch.compile calls it, and traces what it calls
            optimizers.replace(kind, "step", ours)
    except Exception as error:
        optimizers.fail(error)


class _Mark:
    """On a `step` of ours."""


MARK = "_accelprof"
_made: "dict[int, str | None]" = {}  # id: where the user made it, until its first step
_known: "dict[int, tuple[int, Any]]" = {}  # id: its number, a weak reference that forgets it
_count = 0


def _step(original: "Any") -> "Any":
    def step(self: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        here = home if home.thread == get_ident() else inside()
        outermost, meta = not here.stepping, OPTIMIZER | here.other
        here.stepping = True
        timer: "Any" = here.timer if outermost else None
        mark = timer.mark() if timer is not None else None
        start = clock()
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            meta |= RAISED
            undress(error)
            raise
        finally:
            if outermost:
                here.stepping = False
                end = clock()
                try:
                    known = _known.get(id(self))
                    ident = known[0] if known is not None else _number(self)
                    keep((start, end, meta | ident << IDENT))
                    if end >= home.late:
                        flush()
                    if mark is not None:
                        timer.done(OPTIMIZER, start, mark)
                    if home.device is not None:
                        home.device.stepped(end)
                    home.uncalled += 1
                    if known is None or home.uncalled > len(_known):
                        modules.stepped(known is None)
                    if ident == 1 and end >= home.due:
                        capture.tick(capture.STEP, end)
                except Exception as error:
                    optimizers.fail(error)

    return step


def _number(optimizer: "Any") -> int:
    """Numbers an optimizer and tells its facts, from metadata alone."""
    global _count
    _count += 1
    ident, key = min(_count, wire.IDENT_MAX), id(optimizer)
    _known[key] = (ident, weakref.ref(optimizer, lambda _: _known.pop(key, None)))
    tensors = [p for group in optimizer.param_groups for p in group["params"]]
    with torch_c.DisableTorchFunction():
        if tensors:
            devices.begin(tensors[0].device.type)
        parameters = sum(p.numel() for p in tensors)
        size = sum(p.numel() * p.element_size() for p in tensors)
        # After its first step: what it keeps is there. A state of another kind counts as none.
        kept = [t for one in optimizer.state.values() for t in getattr(one, "values", tuple)()]
        state = sum(t.numel() * t.element_size() for t in kept if hasattr(t, "element_size"))
    group = optimizer.param_groups[0] if optimizer.param_groups else {}
    fact(
        wire.FACT_OPTIMIZER,
        id=ident,
        name=type(optimizer).__name__,
        tensors=len(tensors),
        parameters=parameters,
        bytes=size,
        state_bytes=state,
        foreach=group.get("foreach"),
        fused=group.get("fused"),
        where=_made.pop(key, None),
    )
    return ident
