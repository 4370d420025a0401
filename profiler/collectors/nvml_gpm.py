"""GPM, the hardware counters of Hopper and newer: SM, tensor, DRAM, pipes; no root needed.

A reading is the average between two samples. The driver answers OK as a whole while single
metrics fail: each carries its own return code.
"""

from __future__ import annotations

from typing import Any

from .nvml_driver import ADMIN, FUNCTION_NOT_FOUND, NOT_SUPPORTED, Missing, explain
from .nvml_fields import GPM_EXTRAS, GPM_SHARES, Handle

NEEDS = Missing(
    "needs Hopper or newer (GPM)",
    NOT_SUPPORTED,
    f"{ADMIN}: run a dcgm-exporter (data-centre cards from Volta to Ada)",
)
WITHOUT = Missing("this device has no GPM, says its driver", NOT_SUPPORTED)
IDS = (*GPM_SHARES, *GPM_EXTRAS)
NOT_READY = 27


def support(nvml: Any, handle: Handle, capability: str | None) -> Missing | None:
    """None when the device has GPM. `capability`: of CUDA, as in "9.0"."""
    modern = capability is not None and int(capability.partition(".")[0]) >= 9
    without = WITHOUT if modern else NEEDS
    try:
        supported = bool(nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)
    except Exception as error:
        missing = explain(error)
        old = missing.code in (NOT_SUPPORTED, None) or (
            missing.code == FUNCTION_NOT_FOUND and not modern
        )
        return without if old else missing
    return None if supported else without


class Gpm:
    """The two samples of one device. `instance`: a MIG GPU instance of the card `handle`."""

    def __init__(self, nvml: Any, handle: Handle, instance: int | None = None) -> None:
        self.nvml, self.handle, self.instance = nvml, handle, instance
        self.samples = [nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()]
        self.have_first = False
        self.not_ready = 0  # times in a row
        self.request = nvml.c_nvmlGpmMetricsGet_t()
        self.request.version = nvml.NVML_GPM_METRICS_GET_VERSION
        self.request.numMetrics = len(IDS)

    def read(self) -> dict[int, float | Missing] | Missing | None:
        """Raw values by metric id; None: the first sample, there is no interval yet."""
        nvml = self.nvml
        try:
            if self.instance is None:
                nvml.nvmlGpmSampleGet(self.handle, self.samples[1])
            else:
                nvml.nvmlGpmMigSampleGet(self.handle, self.instance, self.samples[1])
            if not self.have_first:
                self._next()
                return None
            request = self.request
            request.sample1, request.sample2 = self.samples
            for position, id_ in enumerate(IDS):
                request.metrics[position].metricId = id_
            nvml.nvmlGpmMetricsGet(request)
        except Exception as error:
            missing = explain(error)
            if missing.code != NOT_READY:
                return missing
            self.not_ready += 1
            if self.not_ready == 1:
                return None
            self._next()  # perhaps the first sample is what is wrong
            return missing
        self.not_ready = 0
        self._next()
        return {id_: self._value(position) for position, id_ in enumerate(IDS)}

    def _next(self) -> None:
        self.samples.reverse()
        self.have_first = True

    def _value(self, position: int) -> float | Missing:
        metric = self.request.metrics[position]
        code = metric.nvmlReturn
        if code:
            return explain(self.nvml.NVMLError(code))
        return float(metric.value)

    def close(self) -> None:
        for sample in self.samples:
            try:
                self.nvml.nvmlGpmSampleFree(sample)
            except Exception:
                return
