"""The accelerators of a run, one by one, as their collectors saw them in the judged part."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .view import Reader

# Under this a device was never used by the job: its screen, or the driver's own work
TOUCHED = 0.02
# The link rests at its lowest generation while the device is idle, and clocks fall with the load
LOADED = 0.5
# NVML's clock event reasons, by what would have to change
THROTTLES: dict[str, int] = {
    "power cap": 0x4,
    "slowdown by the hardware (heat or power)": 0x8,
    "heat": 0x20 | 0x40,
    "power brake of the server": 0x80,
}
ANY_THROTTLE = 0x4 | 0x8 | 0x20 | 0x40 | 0x80


@dataclass(frozen=True)
class Accelerator:
    """One GPU or TPU chip. Shares and means are of the judged part; None: not read."""

    index: int
    name: str = ""
    kind: str = "gpu"
    catalogue: str | None = None
    memory_bytes: int | None = None
    details: dict[str, Any] = field(default_factory=dict)
    used: bool = False
    samples: int = 0  # of the whole run
    readings: int = 0  # of the whole run that tell a load, memory or power
    busiest: float | None = None  # of the whole run
    busy_share: float | None = None
    memory_peak_bytes: int | None = None  # of the whole run
    memory_total_bytes: int | None = None
    power_w: float | None = None
    idle_power_w: float | None = None
    energy_j: float | None = None  # of the whole run
    clock_share: float | None = None  # SM clock under load / the card's maximum
    throttles: dict[str, float] = field(default_factory=dict)  # reason: share of samples under load
    throttled_share: float | None = None  # any of them
    link: tuple[int | None, int | None] | None = None  # (generation, width) most seen under load
    link_samples: int = 0

    def number(self, key: str) -> float | None:
        """A number out of the driver's details."""
        value = self.details.get(key)
        good = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if good else None  # type: ignore[arg-type]


def load(
    reader: Reader, span: tuple[int, int], events: Sequence[dict[str, Any]], *,
    imported: bool, possible: bool,
) -> tuple[Accelerator, ...]:  # fmt: skip
    """The run's accelerators in the order of their numbers; without any, nothing.

    `possible`: the job's torch can use one, so a device whose load nobody could read may be used.
    """
    rows = reader.rows(
        "SELECT device, name, kind, catalogue, memory_bytes, details FROM device "
        "WHERE kind IN ('gpu', 'tpu') ORDER BY device"
    )
    if not rows:
        return ()
    whole = {r[0]: r[1:] for r in reader.rows(_WHOLE)}
    judged = {r[0]: r[1:] for r in reader.rows(_judged(), span)}
    links = _links(reader, span)
    held = {
        e["data"].get("device") for e in events
        if e["kind"] == "device-processes"
        and any(p.get("ours") is True for p in e["data"].get("processes") or [])
    }  # fmt: skip
    found = []
    for index, name, kind, catalogue, memory, details in rows:
        seen = whole.get(index, (0, 0, None, None, None, None))
        part = judged.get(index, (None,) * (6 + len(THROTTLES)))
        about = _object(details)
        most = _positive(about.get("sm_clock_max_hz"))
        touched = 0.0 if imported else TOUCHED
        used = index in held or (possible if seen[2] is None else seen[2] > touched)
        found.append(Accelerator(
            index=index, name=name or "", kind=kind, catalogue=catalogue, memory_bytes=memory,
            details=about, used=used, samples=seen[0], readings=seen[1], busiest=seen[2],
            busy_share=part[0], memory_peak_bytes=seen[3],
            memory_total_bytes=seen[4] or memory, energy_j=seen[5],
            power_w=part[1], idle_power_w=part[2],
            clock_share=min(1.0, part[3] / most) if part[3] and most else None,
            throttled_share=part[4],
            throttles={k: v for k, v in zip(THROTTLES, part[5:], strict=False) if v},
            link=links[index][0] if index in links else None,
            link_samples=links[index][1] if index in links else 0,
        ))  # fmt: skip
    return tuple(found)


# Whether anything was busy: without a view of the run
ON_A_DEVICE = (
    "SELECT 1 FROM device_sample JOIN device USING (device) "
    f"WHERE kind IN ('gpu', 'tpu') AND busy_share > {TOUCHED} LIMIT 1"
)
_WHOLE = (
    "SELECT device, count(*), count(coalesce(busy_share, memory_used_bytes, power_w)), "
    "max(busy_share), max(memory_used_bytes), max(memory_total_bytes), "
    "max(energy_j) - min(energy_j) FROM device_sample GROUP BY device"
)


def _judged() -> str:
    """Throttling counts under load: an idle card lowers its clocks for reasons of its own."""
    loaded = f"FILTER (busy_share IS NULL OR busy_share >= {LOADED})"
    any_of = f"avg(CAST((throttle_bits & {ANY_THROTTLE}) != 0 AS INTEGER)) {loaded}"
    each = ", ".join(
        f"avg(CAST((throttle_bits & {bits}) != 0 AS INTEGER)) {loaded}"
        for bits in THROTTLES.values()
    )
    return (
        "SELECT device, avg(busy_share), avg(power_w), avg(power_w) FILTER (busy_share < 0.1), "
        f"avg(sm_clock_hz) FILTER (busy_share >= {LOADED}), {any_of}, {each} FROM device_sample "
        "WHERE t_ns BETWEEN ? AND ? GROUP BY device"
    )


def _links(
    reader: Reader, span: tuple[int, int]
) -> dict[int, tuple[tuple[int | None, int | None], int]]:
    """By device: the link most often read under load, and how often."""
    found: dict[int, tuple[tuple[int | None, int | None], int]] = {}
    for index, generation, width, count in reader.rows(
        "SELECT device, pcie_generation, pcie_width, count(*) FROM device_sample WHERE t_ns "
        f"BETWEEN ? AND ? AND busy_share >= {LOADED} AND coalesce(pcie_generation, pcie_width) "
        "IS NOT NULL GROUP BY ALL ORDER BY 4 DESC",
        span,
    ):
        found.setdefault(index, ((generation, width), count))
    return found


def _object(text: Any) -> dict[str, Any]:
    try:
        found = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _positive(value: Any) -> float | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return float(value) if good else None
