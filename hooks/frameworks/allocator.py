"""torch.cuda.empty_cache(): how often the job gives the allocator's cache back."""

from .. import wire
from ..facts import fact
from ..patching import Hook, undress, user_frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

hook = Hook("allocator")
_calls = 0
_tell_at = 1


def install(module: "Any") -> None:
    """torch.cuda"""
    hook.wrap(module, "empty_cache", _emptying)


def _emptying(original: "Any") -> "Any":
    def empty_cache(*args: "Any", **kwargs: "Any") -> "Any":
        if not hook.off:
            try:
                _count()
            except Exception as error:
                hook.fail(error)
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            undress(error)
            raise

    return empty_cache


def _count() -> None:
    global _calls, _tell_at
    _calls += 1
    if _calls == _tell_at:
        _tell_at *= 10
        fact(wire.FACT_EMPTIED, calls=_calls, where=user_frame())
