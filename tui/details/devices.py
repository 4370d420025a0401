"""Readings of the devices over the columns of the timeline."""

from __future__ import annotations

from ..model import DeviceTrends, Trend
from .moment import Moment

READINGS = (
    "busy_share", "memory_busy_share", "sm_share", "tensor_share", "dram_share",
    "memory_used_bytes", "power_w", "temperature_c", "sm_clock_hz",
)  # fmt: skip


def read(moment: Moment) -> DeviceTrends:
    """Means over each column; None where a device was not read in it."""
    columns = moment.columns
    if not columns:
        return DeviceTrends(0.0, 0.0, {})
    first, last = columns[0].from_ns, columns[-1].to_ns
    width = columns[0].to_ns - first
    means = ", ".join(f"avg({name})" for name in READINGS)
    rows = moment.reader.rows(
        f"SELECT device, ((t_ns - ?) // ?)::BIGINT AS bin, {means} FROM device_sample "
        "WHERE t_ns >= ? AND t_ns < ? GROUP BY device, bin",
        (first, width, first, last),
    )
    found: dict[int, dict[int, tuple[float | None, ...]]] = {}
    for device, column, *values in rows:
        found.setdefault(device, {})[column] = tuple(values)
    none = (None,) * len(READINGS)
    trends: dict[int, dict[str, Trend]] = {
        device: {
            name: tuple(bins.get(at, none)[number] for at in range(len(columns)))
            for number, name in enumerate(READINGS)
        }
        for device, bins in found.items()
    }
    start = moment.started_ns
    return DeviceTrends((first - start) / 1e9, (last - start) / 1e9, trends)
