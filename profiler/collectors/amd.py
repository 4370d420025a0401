"""The AMD GPUs of this host, by amdsmi or else by the amdgpu driver's files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..accelerators.pci import pci_accelerators
from . import Collector, Finished, Gap, Row, amd_smi, amd_sysfs
from .amd_gpu import ENERGY, POWER_LIMIT, Ask, Gpu
from .device_values import DeviceValues, check, first_number
from .nvml_driver import NOT_SUPPORTED, Missing
from .nvml_energy import Energy
from .nvml_watch import Job, Watch

S = 10**9
HANGS = Missing("the driver call hangs")
NO_DRIVER = "AMD devices are on the bus, but the amdgpu driver offers nothing to read of them"
PROFILING = "sm_share, tensor_share, dram_share, occupancy_share"
UNPROFILED = "AMD's driver does not report it (rocprofiler does, for one program at a time)"
SECOND_DIE = Missing("0 W: the first die reports the power of both")


class AmdCollector(Collector):
    """Rows of device, device_sample and gap."""

    name = "amd"
    default_rate_hz = 2.0  # the firmware renews most readings about once a second
    deadline_s = 15.0  # opening; single calls are watched inside

    def __init__(
        self,
        *,
        root: Path = Path("/"),
        amdsmi: Callable[[], Any] = amd_smi.load_amdsmi,
        deadline_s: float = 0.3,
    ) -> None:
        self._root, self._load = root, amdsmi
        self._watch = Watch("amd", deadline_s)
        self._smi: Any = None
        self._gpus: list[_Sampled] = []
        self._begun = False

    def probe(self) -> list[Gap]:
        on_bus = any(device.vendor == "AMD" for device in pci_accelerators(self._root))
        if not on_bus:
            return [Gap("*", "no AMD GPU on this host's PCI bus")]
        gpus, why = self._find()
        if not gpus:
            return [Gap("*", f"{NO_DRIVER} ({why})" if why else NO_DRIVER)]
        first = first_number("AMD", self._root)
        self._gpus = [_Sampled(gpu, first + number, self) for number, gpu in enumerate(gpus)]
        return [Gap(PROFILING, UNPROFILED)]

    def _find(self) -> tuple[list[Gpu], str | None]:
        """The GPUs of the better source, and why it is not amdsmi."""
        smi = self._load()
        found = smi if isinstance(smi, Missing) else amd_smi.find(smi)
        if not isinstance(found, Missing) and found:
            self._smi = smi
            return found, None
        why = found.reason if isinstance(found, Missing) else "amdsmi lists no GPU"
        gpus = amd_sysfs.find(self._root)
        for gpu in gpus:
            gpu.details["source"] = f"sysfs ({why})"
        return gpus, why

    def sample(self, t_ns: int) -> list[Row]:
        if not self._gpus:
            raise Finished
        asked = {one.job: one for gpu in self._gpus for one in gpu.asked}
        self._watch.run(list(asked), lambda job: asked[job].hung())
        rows: list[Row] = []
        for gpu in self._gpus:
            gpu.fill(t_ns)
            if not self._begun:
                rows.append(("device", gpu.row()))
            rows += gpu.values.rows(t_ns)
        self._begun = True
        return rows

    def close(self) -> None:
        """Ends amdsmi, unless a call is still inside it: then the process's end does."""
        if self._watch.close() and self._smi is not None:
            amd_smi.close(self._smi)


class _Sampled:
    """One GPU and what was read of it last."""

    def __init__(self, gpu: Gpu, device: int, collector: AmdCollector) -> None:
        self.gpu, self.device = gpu, device
        self.values = DeviceValues(collector.name, device)
        self.asked = [_Asked(ask, device) for ask in gpu.asks]
        self._energy = Energy()
        self._limit_w: float | None = None

    def fill(self, t_ns: int) -> None:
        """From the raw readings to the row."""
        values = self.values
        values.clear()
        counter: float | int | Missing = Missing("no energy counter")
        for asked in self.asked:
            for metric, raw in zip(asked.ask.metrics, asked.raw, strict=True):
                if metric is ENERGY:
                    counter = check(metric, raw)
                else:
                    values.put(metric, raw)
        if self.gpu.is_die and values.values["power_w"] == 0:
            values.drop("power_w", SECOND_DIE)
        values.check_together()
        self._limit_w = values.values[POWER_LIMIT.column] or self._limit_w
        self._fill_energy(t_ns / S, counter)

    def _fill_energy(self, t_s: float, counter: float | int | Missing) -> None:
        values, power = self.values, self.values.values["power_w"]
        if isinstance(counter, Missing):
            counter = Missing(counter.reason, NOT_SUPPORTED)  # then power is integrated
        counted = self._energy.counter(t_s, counter, self._limit_w)
        integral = self._energy.power(t_s, power)
        if isinstance(counted, Missing):
            values.drop("energy_j", counted)
        elif counted is not None:
            values.values["energy_j"] = counted
        else:
            values.values["energy_j"] = integral
            why = counter.reason if isinstance(counter, Missing) else ""
            reason = f"integrated from power samples: {why}"
            if power is None:
                reason = "neither an energy counter nor power readings"
            values.missing["energy_j"] = Missing(reason)

    def row(self) -> dict[str, Any]:
        """A row of table `device`, after the first `fill`."""
        row = self.gpu.row(self.device)
        return row | {"details": json.dumps(row["details"] | {"energy": self._energy.source})}


class _Asked:
    """One question as a watched job; `raw` is the latest answer."""

    def __init__(self, ask: Ask, device: int) -> None:
        self.ask = ask
        self.raw: tuple[Any, ...] = (Missing("not read"),) * len(ask.metrics)
        self.job = Job((ask.name, device), ask.read, self.accept)

    def accept(self, raw: tuple[Any, ...]) -> None:
        self.raw = raw

    def hung(self) -> None:
        self.raw = (HANGS,) * len(self.ask.metrics)
