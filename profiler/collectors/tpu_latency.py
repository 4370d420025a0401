"""The runtime's cumulative histograms as events: what came to them since the last event."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .tpu_wire import Distribution, Reading

PREFIX = "megascale."
SUFFIX = ".microsecond.cumulative.distribution"
HLO_TIMING = "hlo.execution.timing.distribution.microseconds"
# Transfers between slices (DCN) and between host and device, and the time of a program.
METRICS = (
    *(
        PREFIX + name + SUFFIX
        for name in (
            "dcn_transfer_latencies",
            "dcn_inbound_transfer_latencies",
            "host_to_device_transfer_latencies",
            "device_to_host_transfer_latencies",
            "collective_end_to_end_latencies",
        )
    ),
    HLO_TIMING,
)
QUANTILES = {"p50_us": 0.5, "p90_us": 0.9, "p999_us": 0.999}
MOST_LABELS = 64
Key = tuple[str, int, str]


class Latencies:
    """Remembers the histograms, to tell only what is new."""

    def __init__(self) -> None:
        self._before: dict[Key, Distribution] = {}

    def news(self, metric: str, port: int, readings: Iterable[Reading]) -> list[dict[str, Any]]:
        """The data of `tpu-latencies` events. The first look is only remembered."""
        whole: dict[str, Distribution] = {}
        for reading in readings:
            if reading.distribution is not None:
                label = _label(metric, reading)
                held = whole.get(label)
                new = reading.distribution
                whole[label] = new if held is None else held.plus(new)
        events = []
        for label, new in list(whole.items())[:MOST_LABELS]:
            before = self._before.get((metric, port, label))
            self._before[metric, port, label] = new
            added = new.minus(before) if before is not None else Distribution()
            if added.count > 0:
                events.append(_event(metric, port, label, added))
        return events


def _label(metric: str, reading: Reading) -> str:
    """The transfer's size, or the device of a program."""
    if metric == HLO_TIMING:
        return "" if reading.device is None else str(reading.device)
    labels = reading.labels
    return str(labels.get("buffer-size", next(iter(labels.values()), "")))[:40]


def _event(metric: str, port: int, label: str, added: Distribution) -> dict[str, Any]:
    short = "hlo_execution" if metric == HLO_TIMING else metric[len(PREFIX) : -len(SUFFIX)]
    of = "tpu_device" if metric == HLO_TIMING else "size"
    data: dict[str, Any] = {"what": short, "port": port, of: label, "count": added.count}
    data["mean_us"] = round(added.mean, 3)
    for name, share in QUANTILES.items():
        value = added.quantile(share)
        data[name] = None if value is None else round(value, 3)
    return data
