"""The NVIDIA devices of this host (nvml_sampling.py). Without any, the CPU is the device."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from ..accelerators.pci import pci_accelerators
from . import Collector, Finished, Gap, NvidiaCards, Row
from .host import cpu_device
from .nvml_sampling import ALL, Sampling

OPEN_WAIT_S = 10.0


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
        found: NvidiaCards | None = None,
        **options: Any,
    ) -> None:
        self._root = root
        self._sampling = Sampling(tree=tree, root=root, **options)
        self._found = found or NvidiaCards()
        self._failed = False
        self._cpu_told = False

    def probe(self) -> list[Gap]:
        self._sampling.open(OPEN_WAIT_S)
        if self._sampling.opening:
            return [Gap(ALL, f"the driver has not answered for {OPEN_WAIT_S:g} s")]
        return self._failure_told()

    def sample(self, t_ns: int) -> list[Row]:
        rows = self._sampling.sample(t_ns)
        if not self._sampling.opening:
            self._found.tell(self._sampling.cards)
        if self._sampling.failure is None:
            return rows
        if self._cpu_told:
            raise Finished
        self._cpu_told = True
        # Opening may have ended, badly, only after the probe.
        late = [(t_ns, self.name, gap.metric, None, gap.reason) for gap in self._failure_told()]
        return [("device", self._cpu()), *(("gap", row) for row in late)]

    def _cpu(self) -> dict[str, Any]:
        """Its number comes after those of other vendors' accelerators."""
        others = [d for d in pci_accelerators(self._root) if d.vendor != "NVIDIA"]
        return cpu_device(self._root) | {"device": len(others)}

    def _failure_told(self) -> list[Gap]:
        """The one gap of a machine whose NVIDIA devices cannot be read."""
        failure = self._sampling.failure
        if failure is None or self._failed:
            return []
        self._failed = True
        return [Gap(ALL, failure.reason)]

    def close(self) -> None:
        self._sampling.close()
