"""One device as it is sampled: what is asked of it, its last values, why others are missing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from .nvml_driver import FUNCTION_NOT_FOUND, GPU_IS_LOST, LASTING, TRY_OLDER, Missing, explain
from .nvml_energy import Energy
from .nvml_fields import (
    COLUMNS,
    ENERGY,
    FIELDS,
    GPM_EXTRAS,
    GPM_ONLY_COLUMNS,
    GPM_SHARES,
    UTILISATION,
    Field,
    Handle,
    Metric,
)  # fmt: skip
from .nvml_gpm import Gpm
from .nvml_watch import Job

S = 1_000_000_000
RETRY_NS = 60 * S  # a lasting error is asked about again after this
TELL_NS = 10 * S  # the same kind of reason is told of a column at most so often
NUMBER = re.compile(r"-?[\d.]+(e[+-]?\d+)?")
STALE_NS = 5 * S  # a reading of the slow lane that is older is missing
GPM_PERIOD_NS = S // 2
MIG_UTILISATION = Missing("n/a (MIG: NVML does not report it)")
UNIFIED = Missing("unified memory: what is stored is the sum of the processes' memory")


class Card:
    """A GPU, or a MIG instance of one: `parent` is set, it has no values but memory and GPM."""

    def __init__(self, nvml: Any, device: int, handle: Handle, parent: Card | None = None) -> None:
        self.nvml, self.device, self.handle, self.parent = nvml, device, handle, parent
        self.uuid = self.name = ""
        self.details: dict[str, Any] = {}
        self.limit_w: float | None = None
        self._finished_ns = 0  # of the sample before
        self.wsl = False
        self.lost = False
        self.values: dict[str, float | int | None] = dict.fromkeys(COLUMNS)
        self.missing: dict[str, Missing] = {}
        self.slow: dict[str, tuple[float | int | Missing, int]] = {}  # column: (value, t_ns)
        self.extras: dict[str, float] = {}  # the latest of GPM's values without a column
        self.process_bytes: int | None = None
        self.energy = Energy()
        self.readings = [Reading(self, field) for field in FIELDS if parent is None or field.on_mig]
        self._each_sample = [r for r in self.readings if not r.field.slow and not r.field.period_s]
        self.gpm: GpmReading | None = None
        self._suspected = False  # at the last sample, some call said that the GPU is lost
        self._active: dict[str, str] = {}  # column: the reason it is missing for
        self._told: dict[tuple[str, str], int] = {}  # column and kind of reason: t_ns
        if parent is not None:
            for metric in UTILISATION.metrics:
                self.put(metric, MIG_UTILISATION)

    @property
    def mig_is_on(self) -> bool:
        return self.details.get("mig_mode") == 1

    def use_gpm(self, instance: int | None = None, handle: Handle | None = None) -> None:
        self.gpm = GpmReading(self, Gpm(self.nvml, handle or self.handle, instance))
        for reading in self.readings:
            reading.by_gpm = reading.field.slow  # until GPM says otherwise

    def without_gpm(self, why: Missing) -> None:
        for column in GPM_ONLY_COLUMNS:
            self.missing[column] = why

    def put(self, metric: Metric, raw: Any) -> float | int | None:
        """Stores a raw reading or its absence under the metric's column."""
        value = raw if isinstance(raw, Missing) else metric.check(raw)
        if isinstance(value, Missing):
            self.values[metric.column] = None
            self.missing[metric.column] = value
            return None
        self.values[metric.column] = value
        self.missing.pop(metric.column, None)
        return value

    def drop(self, column: str, why: Missing) -> None:
        self.values[column] = None
        self.missing[column] = why

    def due(self, t_ns: int, *, slow: bool) -> Iterable[Job]:
        """The calls to make now."""
        for reading in self.readings:
            if reading.field.slow == slow and t_ns >= reading.due_ns and not reading.by_gpm:
                yield reading.start(t_ns)
        if not slow and self.gpm is not None and t_ns >= self.gpm.due_ns:
            yield self.gpm.start(t_ns)

    def rewind(self) -> None:
        """Everything is due: the clock was set back, or the device is back."""
        for reading in self.readings:
            reading.due_ns = 0
        if self.gpm is not None:
            self.gpm.due_ns = 0

    def finish(self, t_ns: int) -> None:
        """What can only be judged from several readings together."""
        paused, self._finished_ns = t_ns - self._finished_ns > STALE_NS // 2, t_ns
        was_lost, self.lost = self.lost, self._is_lost()
        if was_lost and not self.lost:
            self.rewind()
        self.limit_w = self.values["power_limit_w"] or self.limit_w
        for column, (value, at_ns) in self.slow.items():
            if isinstance(value, Missing):
                self.drop(column, value)
            elif t_ns - at_ns > STALE_NS and paused:
                self.values[column] = None  # it was not asked: this process or the machine stood
            elif t_ns - at_ns > STALE_NS:
                self.drop(column, Missing("the driver has not answered for over 5 s"))
            else:
                self.values[column] = value
                self.missing.pop(column, None)
        self._check_memory()
        self._check_busy()
        self._finish_energy(t_ns)
        if self.lost:
            self.values = dict.fromkeys(COLUMNS)

    def _is_lost(self) -> bool:
        """All that is asked at each sample fails so; a single such error is that reading's own."""
        for reading in self._each_sample:
            if reading.last is None or reading.last.code != GPU_IS_LOST:
                return False
        return True

    def _check_memory(self) -> None:
        used, total = self.values["memory_used_bytes"], self.values["memory_total_bytes"]
        if total is None and self.process_bytes is not None and self._memory_unsupported():
            self.values["memory_used_bytes"] = self.process_bytes
            self.missing["memory_used_bytes"] = UNIFIED
        elif used is not None and total is not None and used > total:
            self.drop("memory_used_bytes", Missing("implausible reading: more used than there is"))
        elif used == 0 and total is None:
            self.drop("memory_used_bytes", Missing("the driver gives 0 of 0 bytes"))

    def _memory_unsupported(self) -> bool:
        why = self.missing.get("memory_total_bytes")
        return why is not None and (why.code in LASTING or why.reason.startswith("implausible"))

    def _check_busy(self) -> None:
        busy, power = self.values["busy_share"], self.values["power_w"]
        if power == 0 and busy is not None and busy > 0.5:
            self.drop("power_w", Missing("implausible reading: 0 W while busy"))
        elif self.wsl and busy == 0 and power and self.limit_w and power > 0.6 * self.limit_w:
            self.drop("busy_share", Missing("0 % at high power: not trustworthy on WSL"))

    def _finish_energy(self, t_ns: int) -> None:
        if self.parent is not None:
            return
        power = self.values["power_w"]
        sum_j = self.energy.power(t_ns / S, None if power is None else float(power))
        if self.energy.source == "integrated":
            self.values["energy_j"] = sum_j
            if power is None and "power_w" in self.missing:
                self.missing["energy_j"] = Missing("neither an energy counter nor power readings")

    def row(self, t_ns: int) -> tuple[Any, ...]:
        """A row of device_sample in the schema's order."""
        return (t_ns, self.device, *self.values.values())

    def gaps(self, t_ns: int) -> Iterable[tuple[str, str]]:
        """(column, reason) of what has become missing, told once and not in a stream."""
        if self.lost:
            return
        if not self._active and not self.missing:
            return
        for column in [c for c in self._active if c not in self.missing]:
            del self._active[column]
        lost_here = any(why.code == GPU_IS_LOST for why in self.missing.values())
        suspected, self._suspected = self._suspected, lost_here
        for column, why in self.missing.items():
            if self._active.get(column) == why.reason:
                continue
            if why.code == GPU_IS_LOST and not suspected:
                continue  # lost in the middle of a pass: the next one tells it as a whole
            self._active[column] = why.reason
            kind = (column, NUMBER.sub("#", why.reason))
            if t_ns - self._told.get(kind, -TELL_NS) >= TELL_NS:
                self._told[kind] = t_ns
                yield column, why.reason


class Reading:
    """One Field on one card: remembers which function answers, and rests after lasting errors."""

    def __init__(self, card: Card, field: Field) -> None:
        self.card, self.field = card, field
        self.due_ns = 0
        self.asked_ns = 0
        self.variant = 0
        self.last: Missing | None = None  # of the whole call; None: it answered
        self.plain = not field.slow and field is not ENERGY
        self.by_gpm = False  # GPM gives the same number without blocking
        self.job = Job((field.name, card.device), self._make, self._accept)

    @property
    def function(self) -> str:
        """The NVML function that answers, or the newest when none does."""
        return self.field.readers[self.variant][0]

    def start(self, t_ns: int) -> Job:
        self.asked_ns = t_ns
        self.due_ns = t_ns + int(self.field.period_s * S)
        return self.job

    def _make(self) -> tuple[int, tuple[Any, ...] | Missing]:
        """Runs on the watched thread; changes nothing."""
        nvml, handle, readers = self.card.nvml, self.card.handle, self.field.readers
        first: Missing | None = None
        for variant in range(self.variant, len(readers)):
            try:
                return variant, readers[variant][1](nvml, handle)
            except Exception as error:
                missing = explain(error)
                if first is None or first.code in (FUNCTION_NOT_FOUND, None):
                    first = missing
                if missing.code not in TRY_OLDER and missing.code is not None:
                    break
        return self.variant, first or Missing("not read")

    def _accept(self, result: tuple[int, tuple[Any, ...] | Missing]) -> None:
        self.variant, raw = result
        self.store(raw)

    def store(self, raw: tuple[Any, ...] | Missing) -> None:
        card = self.card
        if self.plain and not isinstance(raw, Missing):
            self.last = None
            for metric, part in zip(self.field.metrics, raw, strict=True):
                card.put(metric, part)
            return
        metrics = self.field.metrics
        if self.field is UTILISATION and isinstance(raw, Missing) and card.mig_is_on:
            raw = Missing(MIG_UTILISATION.reason, raw.code)
        self.last = raw if isinstance(raw, Missing) else None
        if self.last is not None and self.last.code in LASTING:
            self.due_ns = self.asked_ns + RETRY_NS
        parts = (raw,) * len(metrics) if isinstance(raw, Missing) else raw
        if self.field.slow:
            for metric, part in zip(metrics, parts, strict=True):
                value = part if isinstance(part, Missing) else metric.check(part)
                card.slow[metric.column] = (value, self.asked_ns)
        elif self.field is ENERGY:
            self._store_energy(metrics[0], parts[0])
        else:
            for metric, part in zip(metrics, parts, strict=True):
                card.put(metric, part)

    def _store_energy(self, metric: Metric, raw: Any) -> None:
        card = self.card
        value = raw if isinstance(raw, Missing) else metric.check(raw)
        counted = card.energy.counter(self.asked_ns / S, value, card.limit_w)
        if isinstance(counted, Missing):
            card.drop(metric.column, counted)
        elif counted is None:
            reason = value.reason if isinstance(value, Missing) else ""
            card.missing[metric.column] = Missing(f"integrated from power samples: {reason}")
        else:
            card.values[metric.column] = counted
            card.missing.pop(metric.column, None)


class GpmReading:
    """GPM on one card: several columns from one pair of samples."""

    def __init__(self, card: Card, gpm: Gpm) -> None:
        self.card, self.gpm = card, gpm
        self.due_ns = 0
        self.job = Job(("gpm", card.device), gpm.read, self._accept)

    def start(self, t_ns: int) -> Job:
        # A little early rather than a sample late.
        self.due_ns = t_ns + GPM_PERIOD_NS - S // 100
        return self.job

    def _accept(self, values: dict[int, float | Missing] | Missing | None) -> None:
        if values is None:
            return
        for id_, metric in GPM_SHARES.items():
            raw = values if isinstance(values, Missing) else values[id_]
            if metric.column in GPM_ONLY_COLUMNS:
                share = self.card.put(metric, raw)
                if share is not None:
                    self.card.values[metric.column] = min(share, 1.0)
            else:
                self._store_pcie(metric, raw)
        for id_, metric in GPM_EXTRAS.items():
            raw = values if isinstance(values, Missing) else values[id_]
            value = raw if isinstance(raw, Missing) else metric.check(raw)
            if isinstance(value, Missing):
                self.card.extras.pop(metric.column, None)
            else:
                self.card.extras[metric.column] = value

    def _store_pcie(self, metric: Metric, raw: float | Missing) -> None:
        """PCIe from GPM spares the calls that block; without it they go on."""
        value = raw if isinstance(raw, Missing) else metric.check(raw)
        good = not isinstance(value, Missing)
        for reading in self.card.readings:
            if reading.field.slow and reading.field.metrics[0].column == metric.column:
                if good:
                    self.card.slow.pop(metric.column, None)
                reading.by_gpm = good
        if good and self.card.parent is None:
            self.card.put(metric, raw)

    def hung(self, why: Missing) -> None:
        self._accept(why)
