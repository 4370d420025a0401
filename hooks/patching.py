"""Puts our functions in place of the job's, and takes them out again when one of ours fails."""

import os
import sys

from . import facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_DRESS = ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__")


class Hook:
    """A hook, what it replaced, and its fence: a failure of ours takes it out, and only it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.off = False
        self._replaced: "list[tuple[Any, str, Any, Any, bool]]" = []

    def wrap(
        self, owner: "Any", name: str, make: "Callable[[Any], Any]", inline: bool = False
    ) -> None:
        """Replaces `owner.name` by `make(original)`, dressed up as the original.

        `inline`: torch.compile is to go on with the original. Not for what it knows by identity
        (autograd, collectives), nor for methods, which it would then call without self.
        """
        original = getattr(owner, name, None)
        if original is not None:
            ours = dress(make(original), original)
            if inline:
                ours._torchdynamo_inline = original
            self.replace(owner, name, ours)

    def after_init(self, owner: "Any", tell: "Callable[[Any], None]") -> None:
        """`tell(self)` after each `owner.__init__` that did not raise."""

        def make(original: "Any") -> "Any":
            def __init__(self: "Any", *args: "Any", **kwargs: "Any") -> None:
                try:
                    original(self, *args, **kwargs)
                except BaseException as error:
                    undress(error)
                    raise
                try:
                    tell(self)
                except Exception as error:
                    hook.fail(error)

            return __init__

        hook = self
        self.wrap(owner, "__init__", make)

    def replace(self, owner: "Any", name: str, ours: "Any") -> None:
        """Replaces `owner.name` by `ours`."""
        own = vars(owner)
        self._replaced.append((owner, name, own.get(name), ours, name in own))
        setattr(owner, name, ours)

    def fail(self, error: BaseException) -> None:
        """Called from the except clause around every body of ours. Never raises."""
        if self.off:
            return
        self.off = True
        try:
            for owner, name, original, ours, was_there in self._replaced:
                if vars(owner).get(name) is not ours:
                    continue  # somebody wrapped ours: it stays, and only passes through
                if was_there:
                    setattr(owner, name, original)
                else:
                    delattr(owner, name)
            told = f"{type(error).__name__}: {error}"[:300]
        except Exception:
            told = "unknown"
        facts.fact("hook_off", hook=self.name, error=told)


def dress(ours: "Any", original: "Any") -> "Any":
    """functools.wraps, without importing functools at the start of every Python."""
    for name in _DRESS:
        try:
            setattr(ours, name, getattr(original, name))
        except (AttributeError, TypeError):
            pass
    try:
        ours.__dict__.update(original.__dict__)
    except AttributeError:
        pass
    ours.__wrapped__ = original
    return ours


def undress(error: BaseException) -> None:
    """Takes our frame out of a traceback that passes through it; followed by a bare `raise`."""
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next
    if error.__class__ is not StopIteration:
        _tell(error)


def _tell(error: BaseException) -> None:
    """A fact of an error for lack of memory or of a dead loader worker. Never raises."""
    try:
        text = str(error)[:300] if isinstance(error, (MemoryError, RuntimeError)) else ""
        if isinstance(error.__cause__, RuntimeError):  # of a dead worker: by which signal
            text += f" ({str(error.__cause__)[:300]})"
        if isinstance(error, MemoryError) or "out of memory" in text or "allocate memory" in text:
            what = "memory"
        elif "DataLoader worker" in text:
            what = "worker"
        else:
            return
        if text not in _errors and len(_errors) < 8:
            _errors.add(text)
            facts.fact("failure", what=what, error=type(error).__name__, text=text)
    except Exception:
        return


_errors: "set[str]" = set()


def user_frame() -> "str | None":
    """file:line of the innermost frame of the user: not torch, a package, the library or us."""
    library = os.path.dirname(os.__file__) + "/"
    frame: "Any" = sys._getframe(2)
    fallback = None  # a job that is itself an installed package
    while frame is not None:
        path = frame.f_code.co_filename
        where = f"{path}:{frame.f_lineno}"
        if frame.f_globals.get("__name__", "").startswith("_accelprof") or path[:1] == "<":
            pass
        elif "/site-packages/" not in path and not path.startswith(library):
            return where
        elif fallback is None and not _TORCH & set(path.split("/")):
            fallback = where
        frame = frame.f_back
    return fallback


_TORCH = {"torch", "torchdata", "accelerate", "lightning", "pytorch_lightning"}
