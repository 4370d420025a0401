"""The forward of root modules: the models as the job calls them, nothing inside of them.

A root carries its wrapper in its own `_compiled_call_impl`, the place where torch looks for
`Module.compile`'s result: other modules never see it, and torch leaves it out of pickles.

Roots are found by `Module.__call__` of the class, replaced for a moment: the first call that
arrives puts the original back before anything runs. It is replaced again only where a new root
may show up, and for a bounded number of times (`_budget`).
"""

import sys
import weakref
from _thread import get_ident
from sys import getrefcount

from .. import capture, devices, postimport, ring, wire
from ..facts import fact
from ..patching import Hook, dress, undress
from ..ring import flush, keep
from ..threads import home, inside
from . import loader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

hook = Hook("forward")
clock = ring.clock
torch_c: "Any" = sys.modules["torch"]._C
KEY = "_compiled_call_impl"
MOST_ROOTS = 16  # alive; a job that calls more of them by itself has no root
LOOKS = 3  # of a root for others, a round: a cell that is called over and over finds none
RAISED = wire.F_RAISED << wire.FLAG_SHIFT
GRAD, TRAINING = wire.F_GRAD << wire.FLAG_SHIFT, wire.F_TRAINING << wire.FLAG_SHIFT

_module: "Any" = None  # torch.nn.Module
_original: "Any" = None  # its __call__
_grad_enabled: "Any" = None
_budget = 32  # how often the class may still be armed
_roots: "list[weakref.ref[RootCall]]" = []
_count = 0
_round = 0  # changes when roots may look for others once more
_patience = 1  # optimizer steps without a known root until the next look; grows with each
_mine, _owned = -1, -1  # references to a wrapper and its dictionary when nobody else has them


def install(module: "Any") -> None:
    """torch.nn.modules.module"""
    global _module, _original, _grad_enabled
    if not hasattr(module.Module, KEY):
        fact(wire.FACT_NOTE, text="forward is not observed: this torch is older than 2.0")
        return
    _module, _original = module.Module, module.Module.__dict__["__call__"]
    _grad_enabled = sys.modules["torch"].is_grad_enabled
    dress(_discover, _original)
    _calibrate()
    loader.look_out = arm
    postimport.finder.prepare("torch._dynamo", disarm)  # it keeps the class's call as it finds it
    arm()


def install_dynamo(module: "Any") -> None:
    """torch._dynamo: what gets traced is never a class that is armed."""
    global _budget
    handler = getattr(sys.modules.get("torch._dynamo.callback"), "CompilationCallbackHandler", None)
    if hasattr(handler, "run_start_callbacks"):
        # Not on_compile_start(): torch._dynamo.reset() forgets what was registered
        hook.wrap(handler, "run_start_callbacks", _disarming)
        arm()
    else:
        _budget = 0
        disarm()


def install_script(module: "Any") -> None:
    """torch.jit._recursive: torch.jit.script types every attribute, and knows no type of ours."""
    hook.wrap(module, "infer_concrete_type_builder", _bare)


def _bare(original: "Any") -> "Any":
    def infer_concrete_type_builder(nn_module: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        if isinstance(nn_module.__dict__.get(KEY), RootCall):
            del nn_module.__dict__[KEY]
        return original(nn_module, *args, **kwargs)

    return infer_concrete_type_builder


def _disarming(original: "Any") -> "Any":
    def run_start_callbacks(*args: "Any", **kwargs: "Any") -> "Any":
        disarm()
        return original(*args, **kwargs)

    return run_start_callbacks


def arm(again: bool = True) -> None:
    """Looks at the next call of a module, whichever it is, if there may be a new root.

    `again`: known roots, too, may look for another one after their next call.
    """
    global _budget, _round
    _round += again
    if _budget > 0 and not hook.off and _module.__dict__["__call__"] is _original:
        _budget -= 1
        _module.__call__ = _discover
    home.news |= _budget > 0


def disarm() -> None:
    """Makes the class what it is without us."""
    if _module is not None and _module.__dict__["__call__"] is _discover:
        _module.__call__ = _original


def stepped(new: bool) -> None:
    """An optimizer stepped for the first time (`new`), or all of them without a known root."""
    global _budget, _patience
    if new:
        _budget = max(_budget, 32)
    elif home.uncalled < _patience:
        return
    else:  # to arm costs 0.2 ms: classes forget what they know of their methods
        home.uncalled, _patience, _budget = 0, min(2 * _patience, 1 << 16), max(_budget, 1)
    arm()


def _discover(self: "Any", *args: "Any", **kwargs: "Any") -> "Any":
    disarm()
    now = inside()
    if not (now.forward or now.backward or now.data or now.saving):
        try:
            _adopt(self)
        except Exception as error:
            hook.fail(error)
    try:
        return _original(self, *args, **kwargs)
    except BaseException as error:
        undress(error)
        raise


def _adopt(root: "Any") -> None:
    """Puts the wrapper on a root that has none."""
    global _count, _budget, _patience, _roots
    inner = root.__dict__.get(KEY)
    if isinstance(inner, RootCall):
        if inner.root() is root:
            return
        inner = inner.inner
    _roots = [one for one in _roots if one() is not None]
    if len(_roots) >= MOST_ROOTS:
        _budget = 0
        return
    _count, _patience = _count + 1, 1
    call = RootCall(root, min(_count, wire.IDENT_MAX), inner)
    home.news = True
    root.__dict__[KEY] = call
    _roots.append(weakref.ref(call))


class RootCall:
    """Times the calls of one root.

    Holds it weakly: a cycle would keep a deleted model, and its device memory, until the next
    collection. For pickle and copy it is None, wherever a class passes its whole dictionary on.
    """

    __slots__ = ("__weakref__", "ident", "inner", "looks", "meta", "root", "round", "untold")

    def __init__(self, root: "Any", ident: int, inner: "Any") -> None:
        self.root = weakref.ref(root)
        self.ident = ident
        self.meta = wire.FORWARD | ident << wire.IDENT_SHIFT
        self.inner = inner  # what Module.compile() had put here
        self.untold = True
        self.round = self.looks = 0

    def __call__(self, *args: "Any", **kwargs: "Any") -> "Any":
        root, moved = self.root(), False
        own = root.__dict__ if root is not None else {}
        if own.get(KEY) is not self or getrefcount(self) != _mine or getrefcount(own) != _owned:
            caller = sys._getframe(1).f_locals.get("self")
            moved = caller is not root and self._moved(caller)
            if moved:
                root = caller
        call = root._call_impl if self.inner is None else self.inner  # type: ignore[union-attr]
        here = home if home.thread == get_ident() else inside()
        if here.forward or here.backward or here.data or moved or hook.off:
            try:
                return call(*args, **kwargs)
            except BaseException as error:
                undress(error)
                raise
        here.forward = True
        meta = self.meta | here.other | (GRAD if _grad_enabled() else 0)
        if root.training:  # type: ignore[union-attr]
            meta |= TRAINING
        timer = here.timer
        mark = timer.mark() if timer is not None else None
        start = clock()
        try:
            return call(*args, **kwargs)
        except BaseException as error:
            meta |= RAISED
            undress(error)
            raise
        finally:
            here.forward = False
            end = clock()
            try:
                keep((start, end, meta))
                if end >= home.late:
                    flush()
                if mark is not None:
                    timer.done(wire.FORWARD, start, mark)
                home.uncalled = 0
                if end >= home.due and self.ident == 1:
                    capture.tick(capture.CALL, end)
                if home.news:
                    self._look(root)
            except Exception as error:
                hook.fail(error)

    def _look(self, root: "Any") -> None:
        """While something is new: tells of the root, and looks out for others."""
        if self.untold and not torch_c._get_tracing_state():
            self.untold = False
            _tell(root, self.ident)
        home.news = self.untold
        if self.round != _round:
            self.round, self.looks = _round, LOOKS
        if self.looks > 0:
            self.looks -= 1
            arm(again=False)
        home.news |= _budget > 0

    def _moved(self, caller: "Any") -> bool:
        """Whether the caller is another module that got our wrapper with a root's dictionary."""
        if not isinstance(caller, _module) or caller.__dict__.get(KEY) is not self:
            return False
        if self.inner is None:
            del caller.__dict__[KEY]
        else:
            caller.__dict__[KEY] = self.inner
        return True

    def __reduce__(self) -> "tuple[type, tuple[()]]":
        return type(None), ()

    def __copy__(self) -> None:
        return None

    def __deepcopy__(self, memo: object) -> None:
        return None


class _Counting(RootCall):
    """Learns how many references a wrapper has while torch calls it."""

    __slots__ = ()

    def __call__(self, *args: "Any", **kwargs: "Any") -> None:
        global _mine, _owned
        own = self.root().__dict__
        _mine, _owned = getrefcount(self), getrefcount(own)


def _calibrate() -> None:
    root = _module()
    root.__dict__[KEY] = _Counting(root, 0, None)
    root()


def _tell(root: "Any", ident: int) -> None:
    """A root's facts, from metadata alone. After its first call: lazy modules are real then."""
    try:
        with torch_c.DisableTorchFunction():
            tensors = list(root.parameters())
            parameters = sum(p.numel() for p in tensors)
            size = sum(p.numel() * p.element_size() for p in tensors)
        if tensors:
            devices.begin(tensors[0].device.type)
        code = getattr(getattr(type(root), "forward", None), "__code__", None)
        fact(
            wire.FACT_ROOT,
            id=ident,
            name=type(root).__name__,
            parameters=parameters,
            bytes=size,
            # By now torch has made up its mind: to ask earlier would be to do it
            threads=torch_c.get_num_threads(),
            dtype=str(tensors[0].dtype).replace("torch.", "") if tensors else None,
            where=code and f"{code.co_filename}:{code.co_firstlineno}",
        )
    except Exception:  # parameters of a kind of their own: the times are right without them
        fact(wire.FACT_ROOT, id=ident, name=type(root).__name__)
