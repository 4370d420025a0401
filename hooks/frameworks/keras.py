"""Keras 3 on torch: its optimizers are none of torch's."""

import sys

from .. import wire
from ..patching import Hook
from ..timing import timed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

hook = Hook("keras optimizer")


def install(module: "Any") -> None:
    """keras.src.optimizers.base_optimizer; on another backend `apply` is only traced."""
    if "keras.src.backend.torch" in sys.modules:
        make = timed(hook, wire.OPTIMIZER | 1 << wire.IDENT_SHIFT, "stepping")
        hook.wrap(module.BaseOptimizer, "apply", make)
