"""Metric loggers: SummaryWriter (tensorboard and tensorboardX), wandb, mlflow; tqdm's bars."""

import sys

from .. import ring, wire
from ..facts import fact
from ..patching import Hook
from ..timing import timed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

hook = Hook("loggers")
MLFLOW = ("log_metric", "log_metrics", "log_param", "log_params", "log_artifact", "log_artifacts",
          "log_image", "log_figure", "log_text", "log_dict", "log_table")  # fmt: skip
_count = 0


def _logging(name: str) -> "Any":
    """Numbers a logger; returns the maker of its wrappers."""
    global _count
    _count += 1
    fact(wire.FACT_LOGGER, id=_count, name=name)
    return timed(hook, ring.meta(wire.LOGGING, _count), "logging")


def install_writer(module: "Any") -> None:
    """torch.utils.tensorboard.writer or tensorboardX.writer"""
    make = _logging(f"{module.__name__.rpartition('.')[0]}.SummaryWriter")
    writer = module.SummaryWriter
    names = [name for name in vars(writer) if name.startswith("add_")]
    for name in [*names, "flush", "close"]:
        if callable(getattr(writer, name, None)):
            hook.wrap(writer, name, make)


def install_wandb(module: "Any") -> None:
    """wandb.sdk.wandb_run; wandb.log is the `log` of the current run"""
    make = _logging("wandb")
    for name in ("log", "log_artifact", "save"):
        hook.wrap(module.Run, name, make)


def install_mlflow(module: "Any") -> None:
    """mlflow.tracking.fluent, whose functions mlflow itself hands out"""
    make = _logging("mlflow")
    mlflow = sys.modules["mlflow"]
    for name in MLFLOW:
        original = getattr(module, name, None)
        hook.wrap(module, name, make, inline=True)
        if original is not None and getattr(mlflow, name, None) is original:
            hook.replace(mlflow, name, getattr(module, name))


def install_tqdm(module: "Any") -> None:
    """tqdm.std, whose `display` is called for each time that a bar is drawn"""
    hook.wrap(module.tqdm, "display", _logging("tqdm"))
