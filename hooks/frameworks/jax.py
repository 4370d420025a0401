"""JAX: calls of jitted functions from the job's own code, from call to return.

A step is an outer jitted call. JAX works behind the host's back: a call returns early, and the job
waits where it reads a result. Nothing here waits for it. `jax.jit` alone is replaced, for what the
job makes from then on; JAX's own functions are jitted by a name of their own and stay as they are.
"""

import types

from .. import ring, wire
from ..facts import fact
from ..patching import Hook, dress, undress
from ..threads import inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

hook = Hook("jit")
clock = ring.clock
RAISED = wire.F_RAISED << wire.FLAG_SHIFT
_count = 0


def install(module: "Any") -> None:
    """jax"""
    fact("jax", version=str(module.__version__))
    fact(wire.FACT_NOTE, text="JAX: a step is an outer jitted call, and nothing is seen inside")
    hook.wrap(module, "jit", _jit)


def _jit(original: "Any") -> "Any":
    def jit(*args: "Any", **options: "Any") -> "Any":
        try:
            found = original(*args, **options)
        except BaseException as error:
            undress(error)
            raise
        try:
            if hook.off:
                return found
            if hasattr(found, "lower"):
                return Jitted(found)
            if callable(found):  # jit(static_argnums=0) waits for its function
                return lambda *function, **more: Jitted(found(*function, **more))
        except Exception as error:
            hook.fail(error)
        return found

    return jit


class Jitted:
    """A jitted function that tells when it is called from outside of any other."""

    def __init__(self, function: "Any") -> None:
        self.__dict__["_accelprof"] = function
        self.__dict__["_accelprof_ident"] = 0
        dress(self, function)

    def __call__(self, *args: "Any", **options: "Any") -> "Any":
        here = inside()
        function = self.__dict__["_accelprof"]
        if here.forward or hook.off:
            return function(*args, **options)
        here.forward = True
        meta, start = wire.FORWARD | here.other, clock()
        try:
            return function(*args, **options)
        except BaseException as error:
            meta |= RAISED
            undress(error)
            raise
        finally:
            here.forward = False
            if not hook.off:
                self._wrote(start, meta)

    def _wrote(self, start: int, meta: int) -> None:
        global _count
        try:
            end, own = clock(), self.__dict__
            if not own["_accelprof_ident"]:
                _count += 1
                own["_accelprof_ident"] = min(_count, wire.IDENT_MAX)
                job = getattr(own["_accelprof"], "__wrapped__", None)
                code = getattr(job, "__code__", None)
                fact(
                    wire.FACT_ROOT,
                    id=own["_accelprof_ident"],
                    name=str(own.get("__name__", "jit")),
                    where=code and f"{code.co_filename}:{code.co_firstlineno}",
                )
            ring.emit(start, end, meta | own["_accelprof_ident"] << wire.IDENT_SHIFT)
        except Exception as error:
            hook.fail(error)

    def __get__(self, instance: "Any", owner: "Any" = None) -> "Any":
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> "Any":
        return getattr(self.__dict__["_accelprof"], name)

    def __repr__(self) -> str:
        return repr(self.__dict__["_accelprof"])

    def __reduce__(self) -> "Any":
        return self.__dict__["_accelprof"].__reduce__()
