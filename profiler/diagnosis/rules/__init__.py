"""Causes and findings: one small pure function each, listed here in the order of precedence.

The verdict's cause is the first rule of the winning bottleneck that fires.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..model import Judgement, RunView
from . import (
    collate,
    compute,
    host,
    limits,
    loader,
    memory,
    memory_growth,
    oversubscribed,
    pauses,
    stalls,
    workers,
)


@dataclass(frozen=True)
class Listed:
    judge: Callable[[RunView], Judgement]
    bottleneck: str | None = None  # whose cause it can be
    cause: str | None = None  # when it differs from the finding's id


RULES: tuple[Listed, ...] = (
    Listed(workers.restart, "input-bound"),
    Listed(loader.waiting, "input-bound"),
    Listed(loader.in_process, "input-bound"),
    Listed(oversubscribed.judge, "input-bound"),
    Listed(collate.judge, "input-bound"),
    Listed(workers.storage, "input-bound"),
    Listed(workers.too_few, "input-bound"),
    Listed(workers.decode, "input-bound"),
    Listed(pauses.logging, "host-bound", "logging"),
    Listed(host.garbage, "host-bound", "python"),
    Listed(host.small_kernels, "host-bound"),
    Listed(host.python, "host-bound"),
    Listed(memory.decode, "memory-bound"),
    Listed(memory.small_batch, "memory-bound"),
    Listed(memory.optimizer, "memory-bound"),
    Listed(memory.unfused, "memory-bound"),
    Listed(memory.good, "memory-bound", "good"),
    Listed(compute.precision, "compute-bound"),
    Listed(compute.small_batch, "compute-bound"),
    Listed(compute.good, "compute-bound", "good"),
    Listed(pauses.checkpoint, "checkpoint-bound"),
    Listed(pauses.evaluation),
    Listed(stalls.epoch),
    Listed(stalls.outliers),
    Listed(stalls.stalled),
    Listed(stalls.ranks),
    Listed(limits.throttled),
    Listed(limits.idle_device),
    Listed(limits.cpu_limit),
    Listed(limits.shm),
    Listed(limits.worker_died),
    Listed(memory_growth.judge),
)
