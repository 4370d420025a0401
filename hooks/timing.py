"""The common wrapper: one span for the outermost call of its kind on a thread."""

from . import ring
from .patching import Hook, undress
from .threads import inside
from .wire import F_RAISED, FLAG_SHIFT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

RAISED = F_RAISED << FLAG_SHIFT


def timed(hook: Hook, record: int, within: str, shortest_ns: int = 0) -> "Callable[[Any], Any]":
    """Makes wrappers that write `record` (see ring.meta) around the original.

    `within` names the attribute of `inside` that keeps calls inside of it unrecorded.
    Calls that take less than `shortest_ns` are not worth a record.
    """
    clock = ring.clock

    def make(original: "Any") -> "Any":
        def wrapper(*args: "Any", **kwargs: "Any") -> "Any":
            here = inside()
            outermost = not getattr(here, within)
            setattr(here, within, True)
            meta, start = record | here.other, clock()
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                meta |= RAISED
                undress(error)
                raise
            finally:
                if outermost:
                    setattr(here, within, False)
                    if not hook.off:
                        try:
                            end = clock()
                            if end - start >= shortest_ns:
                                ring.emit(start, end, meta)
                        except Exception as error:
                            hook.fail(error)

        return wrapper

    return make
