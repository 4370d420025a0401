"""Profiling counters of NVIDIA cards before Hopper, from a dcgm-exporter that the user names.

NVML gives them on Hopper and newer alone. Reading them ourselves would need a lock that one
profiler of the whole host can hold; an exporter that runs already has it. Rows hold what NVML does
not give and nothing else, under NVML's device numbers; without NVML, the exporter's cards are ours.
"""

from __future__ import annotations

import hashlib
import json
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..accelerators.catalogue import by_nvml_name
from . import Collector, Finished, NvidiaCards, Row
from .dcgm_fetch import URL_VARIABLE, fetch, full_url
from .dcgm_text import FIELDS, FREE, PROFILING, RESERVED, USED, Sample, blank, field_name, samples
from .device_values import DeviceValues, first_number
from .nvml_driver import Missing

S = 10**9
STALE_S = 120.0
NVML_OPENS_NS = 30 * S  # so long it may take, before the exporter is read without it
NVML_WAIT_S = 0.4  # in one sample: usually it is open at once
FIRST, WITH_GPM = (7, 0), (9, 0)  # compute capabilities between which only DCGM profiles


class Entity(NamedTuple):
    """A card, or a MIG instance of one."""

    uuid: str
    instance: int | None = None


Fields = Mapping[str, float]  # by today's names
Found = dict[Entity, dict[str, float]]


class DcgmCollector(Collector):
    """Rows of device_sample, gap and event; of device when NVML has none."""

    name = "dcgm"
    default_rate_hz = 0.5  # the exporter itself reads every 30 s unless told otherwise

    def __init__(
        self,
        nvidia: NvidiaCards,
        *,
        url: str | None = None,
        root: Path = Path("/"),
        timeout_s: float = 2.0,
    ) -> None:
        self._nvidia, self._root, self._timeout_s = nvidia, root, timeout_s
        self.url = full_url(url) if url else None
        self._values: dict[Entity, DeviceValues] = {}
        self._told: set[str] = set()
        self._begun_ns: int | None = None
        self._refresh = Refresh()
        self._advised = False

    @property
    def _place(self) -> str:
        """The exporter in words: no path, no password."""
        parts = urllib.parse.urlsplit(self.url or "")
        return f"the dcgm-exporter at {parts.hostname}" + (f":{parts.port}" if parts.port else "")

    def sample(self, t_ns: int) -> list[Row]:
        if self._begun_ns is None or t_ns < self._begun_ns:
            self._begun_ns = t_ns
        cards = self._nvidia.wait(NVML_WAIT_S)
        if cards is None and (self.url is None or t_ns - self._begun_ns < NVML_OPENS_NS):
            return []
        if self.url is None:
            return self._advise(cards or (), t_ns)
        text = fetch(self.url, self._timeout_s)
        if isinstance(text, Missing):
            return self._tell(f"{self._place}: {text.reason}", t_ns)
        found, labels, age_s = entities(text, t_ns)
        if not found:
            return self._tell(f"{self._place} serves no readings of GPUs", t_ns)
        rows = self._refreshed(found, labels, t_ns)
        stale_s = self._refresh.unchanged_s(t_ns) if age_s is None else age_s
        if stale_s > STALE_S:
            reason = f"{self._place}: its readings are older than {STALE_S:g} s"
            return rows + self._tell(reason, t_ns)
        return rows + (self._fill(found, cards, t_ns) if cards else self._own(found, labels, t_ns))

    def _advise(self, cards: Any, t_ns: int) -> list[Row]:
        """Without an exporter: silence, unless one would help."""
        if self._advised:
            raise Finished
        self._advised = True
        names = sorted({card.name for card in cards if _profiled_by_dcgm(card)})
        if not names:
            raise Finished
        reason = (
            f"{', '.join(names)}: SM, tensor-core and memory activity need a dcgm-exporter; "
            f"name one with {URL_VARIABLE}=http://HOST:9400/metrics"
        )
        return self._tell(reason, t_ns)

    def _refreshed(self, found: Found, labels: Mapping[str, str], t_ns: int) -> list[Row]:
        """An event once it is known how old a reading may be."""
        period_s = self._refresh.look(found, t_ns)
        if period_s is None:
            return []
        data = {
            "host": labels.get("hostname"),
            "refresh_s": period_s,
            "note": f"a reading may be {period_s:g} s old",
        }
        return [("event", (t_ns, "dcgm-refresh", None, None, json.dumps(data)))]

    def _fill(self, found: Found, cards: Any, t_ns: int) -> list[Row]:
        """What NVML does not give of its devices."""
        rows: list[Row] = []
        known = {entity_of(card): card for card in cards}
        for entity, fields in found.items():
            card = known.get(entity)
            if card is None:
                continue
            values = self._values.setdefault(entity, DeviceValues(self.name, card.device))
            lacking = {column for column, value in list(card.values.items()) if value is None}
            _put(values, fields, lacking)
            if _profiled_by_dcgm(card):
                _miss_profiling(values, fields)
            rows += values.rows(t_ns)
        if not known.keys() & found.keys():
            rows += self._tell(f"{self._place} shows other GPUs than this host has", t_ns)
        return rows

    def _own(self, found: Found, labels: Mapping[str, str], t_ns: int) -> list[Row]:
        """All that the exporter gives, where NVML gives nothing."""
        rows: list[Row] = []
        first = first_number(self.name, self._root)
        for entity, fields in found.items():
            if entity not in self._values:
                device = first + len(self._values)
                self._values[entity] = DeviceValues(self.name, device)
                rows.append(("device", _device(device, entity, fields, labels)))
            values = self._values[entity]
            _put(values, fields, set(values.values))
            rows += values.rows(t_ns)
        return rows

    def _tell(self, reason: str, t_ns: int) -> list[Row]:
        if reason in self._told:
            return []
        self._told.add(reason)
        return [("gap", (t_ns, self.name, "*", None, reason))]


class Refresh:
    """How often the exporter's readings change, from outside."""

    def __init__(self) -> None:
        self._digest = b""
        self._changes = 0
        self._changed_ns = 0
        self._told = False

    def look(self, found: Any, t_ns: int) -> float | None:
        """Seconds between two changes, once: after the second change that was seen."""
        digest = hashlib.sha1(repr(found).encode(), usedforsecurity=False).digest()
        if digest == self._digest:
            return None
        period_s = (t_ns - self._changed_ns) / S
        self._digest, self._changed_ns = digest, t_ns
        self._changes += 1
        if self._changes < 3 or self._told or period_s <= 0:
            return None
        self._told = True
        return round(period_s, 1)

    def unchanged_s(self, t_ns: int) -> float:
        return max(0.0, (t_ns - self._changed_ns) / S)


def entities(text: str, t_ns: int) -> tuple[Found, dict[str, str], float | None]:
    """Readings by card or instance; the labels of one sample; their age when the page tells it."""
    found: Found = {}
    labels: dict[str, str] = {}
    newest: float | None = None
    wanted = {*FIELDS, FREE, RESERVED}
    for sample in samples(text):
        name = field_name(sample.name)
        uuid = sample.labels.get("uuid", "").lower()
        if name not in wanted or not uuid:
            continue
        labels = labels or sample.labels
        # A card that several pods share has a line for each of them, with the same value.
        found.setdefault(Entity(uuid, _instance(sample)), {}).setdefault(name, sample.value)
        if sample.time_s is not None:
            newest = max(newest or 0.0, sample.time_s)
    return found, labels, None if newest is None else t_ns / S - newest


def _instance(sample: Sample) -> int | None:
    text = sample.labels.get("gpu_i_id", "")
    return int(text) if text.isdigit() else None


def entity_of(card: Any) -> Entity:
    """The exporter names an instance by its card's UUID and its number there."""
    if card.parent is None:
        return Entity(card.uuid.lower())
    return Entity(card.parent.uuid.lower(), card.details.get("gpu_instance"))


def _profiled_by_dcgm(card: Any) -> bool:
    """Volta to Ada without GPM: NVML has no profiling counters, DCGM has."""
    top = card.parent or card
    try:
        capability = tuple(int(n) for n in str(top.details["compute_capability"]).split("."))
    except (KeyError, ValueError):
        return False
    return card.gpm is None and FIRST <= capability < WITH_GPM


def _put(values: DeviceValues, fields: Fields, columns: set[str]) -> None:
    """The fields that give one of these columns."""
    values.clear()
    for name, metric in FIELDS.items():
        if name in fields and metric.column in columns:
            values.put(metric, blank(fields[name]) or fields[name])
    total = FIELDS["DCGM_FI_DEV_FB_TOTAL"]
    if total.column in columns and values.values[total.column] is None:
        values.put(total, _sum_of_memory(fields))
    values.check_together()


def _sum_of_memory(fields: Fields) -> float | Missing:
    """The total in MiB, which the exporter's default counters leave out."""
    parts = [fields.get(name, 0.0) for name in (USED, FREE, RESERVED)]
    if USED not in fields or FREE not in fields or blank(parts[0]) or blank(parts[1]):
        return Missing("the exporter serves neither the total memory nor its free part")
    return parts[0] + parts[1] + (0.0 if blank(parts[2]) else parts[2])


def _miss_profiling(values: DeviceValues, fields: Fields) -> None:
    for name in PROFILING:
        if name not in fields:
            reason = (
                f"the exporter does not serve {name}: add it to its counters file, unless "
                "another profiler (Nsight) holds the counters"
            )
            values.drop(FIELDS[name].column, Missing(reason))


def _device(
    device: int, entity: Entity, fields: Fields, labels: Mapping[str, str]
) -> dict[str, Any]:
    """A row of table `device`, by what the exporter says."""
    name = labels.get("modelname") or "NVIDIA GPU"
    known = by_nvml_name(name) if entity.instance is None else None
    scratch = DeviceValues("dcgm", device)
    _put(scratch, fields, {"memory_total_bytes"})
    details: dict[str, Any] = {"source": "dcgm-exporter", "host": labels.get("hostname")}
    if entity.instance is not None:
        details["gpu_instance"] = entity.instance
    return {
        "device": device,
        "uuid": f"GPU-{entity.uuid.removeprefix('gpu-')}",
        "name": name,
        "kind": "gpu",
        "catalogue": known.id if known else None,
        "memory_bytes": scratch.values["memory_total_bytes"],
        "details": details,
    }
