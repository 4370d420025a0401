"""Causes and findings: one small pure function each, listed here in the order of precedence.

The verdict's cause is the first rule of the winning bottleneck that fires.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..model import Judgement, RunView
from . import (
    cluster,
    collate,
    compute,
    data_parallel,
    device_faults,
    device_memory,
    emptied_cache,
    gil,
    hand_off,
    host,
    idle_device,
    limits,
    link,
    loader,
    memory,
    memory_growth,
    out_of_memory,
    oversubscribed,
    pauses,
    ranks,
    recompiles,
    remote_data,
    sampler,
    shape_variation,
    shared_device,
    stalls,
    synchronisation,
    telemetry,
    throttled,
    transfer,
    unlike_hardware,
    upgrade,
    workers,
)


@dataclass(frozen=True)
class Listed:
    judge: Callable[[RunView], Judgement]
    bottlenecks: tuple[str, ...] = ()  # whose cause it can be
    cause: str | None = None  # when it differs from the finding's id


INPUT, HOST, MEMORY = ("input-bound",), ("host-bound",), ("memory-bound",)
COMPUTE, TRANSFER = ("compute-bound",), ("transfer-bound",)

RULES: tuple[Listed, ...] = (
    Listed(workers.restart, INPUT),
    Listed(sampler.judge, INPUT),
    Listed(hand_off.judge, INPUT),
    Listed(remote_data.judge, INPUT),
    Listed(loader.waiting, INPUT),
    Listed(loader.in_process, INPUT),
    Listed(oversubscribed.judge, INPUT),
    Listed(oversubscribed.training),
    Listed(collate.judge, INPUT),
    Listed(workers.storage, INPUT),
    Listed(workers.too_few, INPUT),
    Listed(workers.decode, INPUT),
    Listed(pauses.logging, HOST, "logging"),
    Listed(recompiles.judge, HOST),
    Listed(host.garbage, HOST, "python"),
    Listed(gil.judge, HOST),
    Listed(host.small_kernels, HOST),
    Listed(synchronisation.judge, HOST),
    Listed(host.python, HOST),
    Listed(memory.decode, MEMORY),
    Listed(memory.small_batch, MEMORY),
    Listed(memory.optimizer, MEMORY),
    Listed(memory.unfused, MEMORY),
    Listed(memory.good, MEMORY, "good"),
    Listed(compute.precision, COMPUTE),
    Listed(compute.small_batch, COMPUTE),
    Listed(throttled.judge, COMPUTE),
    Listed(compute.good, COMPUTE, "good"),
    Listed(link.judge, (*TRANSFER, "communication-bound")),
    Listed(transfer.too_often, TRANSFER),
    Listed(transfer.unpinned, TRANSFER),
    Listed(ranks.straggler, ("communication-bound",)),
    Listed(ranks.exposed, ("communication-bound",)),
    Listed(pauses.checkpoint, ("checkpoint-bound",)),
    Listed(pauses.evaluation),
    Listed(stalls.epoch),
    Listed(stalls.outliers),
    Listed(stalls.stalled),
    Listed(stalls.ranks),
    Listed(cluster.judge),
    Listed(shape_variation.judge),
    Listed(telemetry.judge),
    Listed(device_faults.lost),
    Listed(device_faults.xid),
    Listed(out_of_memory.judge),
    Listed(device_memory.capacity),
    Listed(device_memory.fragmentation),
    Listed(idle_device.judge),
    Listed(shared_device.judge),
    Listed(data_parallel.judge),
    Listed(emptied_cache.judge),
    Listed(unlike_hardware.wrong),
    Listed(unlike_hardware.mixed),
    Listed(limits.cpu_limit),
    Listed(limits.shm),
    Listed(limits.worker_died),
    Listed(memory_growth.judge),
    Listed(upgrade.judge),
)
