"""The NVIDIA devices of this host (nvml_sampling.py). Without any, the CPU is the device."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from . import Collector, Finished, Gap, Row
from .host import cpu_device
from .nvml_sampling import ALL, Sampling


class NvmlCollector(Collector):
    """Rows of device, device_sample, event and gap."""

    name = "nvml"
    default_rate_hz = 10.0
    deadline_s = 15.0  # opening may wake each GPU for a second; single calls are watched inside

    def __init__(
        self,
        *,
        tree: Callable[[], Collection[int]] = tuple,
        root: Path = Path("/"),
        **options: Any,
    ) -> None:
        self._root = root
        self._sampling = Sampling(tree=tree, root=root, **options)
        self._cpu_told = False

    def probe(self) -> list[Gap]:
        self._sampling.open()
        failure = self._sampling.failure
        return [Gap(ALL, failure.reason)] if failure else []

    def sample(self, t_ns: int) -> list[Row]:
        if self._sampling.failure is None:
            return self._sampling.sample(t_ns)
        if self._cpu_told:
            raise Finished
        self._cpu_told = True
        return [("device", cpu_device(self._root))]

    def close(self) -> None:
        self._sampling.close()
