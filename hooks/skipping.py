"""Tells torch.compile to leave our functions alone: run them as they are, trace nothing of them.

Set in C on the code objects, which does not import torch._dynamo. Not `is_compiling()` in the
hooks: they would then vanish from a compiled optimizer step, and with them the step's border.
"""

import sys

from . import postimport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any


def start() -> None:
    """Marks all code of ours that is loaded, and from now on what gets loaded."""
    codes = postimport.finder.loader.codes
    mark = _marker()
    if mark is None:
        return
    for code in codes:
        _walk(code, mark)
    postimport.finder.loader.codes = _Marking(mark)


class _Marking:
    """In place of the loader's list of modules: marks each as it comes."""

    def __init__(self, mark: "Any") -> None:
        self.mark = mark

    def append(self, code: "CodeType") -> None:
        _walk(code, self.mark)


def _walk(code: "CodeType", mark: "Any") -> None:
    """The code of a module and of all functions and classes in it."""
    mark(code)
    for constant in code.co_consts:
        if isinstance(constant, type(code)):
            _walk(constant, mark)


def _marker() -> "Any":
    frames = sys.modules["torch"]._C._dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):
        action = frames._FrameAction
        strategy = frames._FrameExecStrategy(action.SKIP, action.DEFAULT)
        return lambda code: frames.set_code_exec_strategy(code, strategy)
    return getattr(frames, "skip_code", None)
