"""Starts the hooks in a Python of the job. Light: most of them never import torch."""

import atexit
import os
import sys

from . import borders, facts, postimport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def start(spool: str, folder: str) -> None:
    """`folder` is the one on PYTHONPATH; `spool` is where this process tells about itself."""
    facts.spool = spool
    facts.begin()
    borders.install(folder)
    postimport.finder.watch("torch", _after_torch)
    postimport.finder.watch("jax", _after_jax)
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
    atexit.register(_at_exit)


def _after_torch(torch: "Any") -> None:
    """torch is imported: put the hooks in. Whatever goes wrong here is not the job's business."""
    try:
        from . import frameworks, tracing

        frameworks.install(torch)
        tracing.allow()
    except Exception as error:
        facts.fact("hook_off", hook="install", error=f"{type(error).__name__}: {error}")


def _after_jax(jax: "Any") -> None:
    try:
        from .frameworks import jax as hooks

        hooks.install(jax)
    except Exception as error:
        facts.fact("hook_off", hook="jit", error=f"{type(error).__name__}: {error}")


def _loaded(name: str) -> "Any":
    """A module of ours, when this process has it."""
    return sys.modules.get(f"_accelprof_hooks.{name}")


def _before_fork() -> None:
    capture = _loaded("capture")
    if capture is not None:
        capture.abandon()  # a child would go on recording for ever


def _after_fork() -> None:
    facts.reset()
    ring = _loaded("ring")
    if ring is not None:
        ring.reset()
    tracing = _loaded("tracing")
    if tracing is not None:
        tracing.after_fork()


def _at_exit() -> None:
    """Runs last of the job's exit handlers, as it was registered first."""
    capture = _loaded("capture")
    if capture is not None:
        capture.abandon()
    ring = _loaded("ring")
    if ring is not None:
        try:
            ring.flush()
        except Exception as error:
            facts.fact("hook_off", hook="ring", error=f"{type(error).__name__}: {error}")
    if facts.process:
        facts.fact("exit")
