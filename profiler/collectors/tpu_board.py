"""From the runtime's answers to one row a chip.

A chip that no process holds has no readings: it gets no row, and nothing of it is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .device_values import DeviceValues, check, number
from .nvml_driver import Missing
from .nvml_fields import Metric
from .tpu_chips import Chip, share_out
from .tpu_service import Answers
from .tpu_wire import Reading

USED = "tpu.runtime.hbm.memory.usage.bytes"
TOTAL = "tpu.runtime.hbm.memory.total.bytes"
DUTY = "tpu.runtime.tensorcore.dutycycle.percent"
BANDWIDTH = "tpu.runtime.hbm.utilization.percent"
IDLE = "tpu.runtime.tensorcore.idle_duration.seconds"
QUEUE = "hlo.queue.size.gauge"
COLUMNS: dict[str, Metric] = {
    TOTAL: Metric("memory_total_bytes", low=1, high=2**46, whole=True, unit="B"),
    USED: Metric("memory_used_bytes", high=2**46, whole=True, unit="B"),
    DUTY: Metric("busy_share", 0.01, high=1.01),
    BANDWIDTH: Metric("dram_share", 0.01, high=1.01),
}
TENSOR = Metric("tensor_share", 0.01, high=1.01)
SUMS = frozenset({USED, TOTAL})  # over the cores of a chip; the others are means
COUNTERS = {QUEUE: "hlo_queue", IDLE: "idle_s"}
SDK_COUNTERS = {"tpu_throttle_score": "throttle_score", "ici_link_health": "ici_link_health"}
UNSURE = "the runtime's numbers do not tell which chip is which: their order is assumed"
Numbered = list[tuple[int, int, Reading]]  # port, the runtime's number, reading


class Board:
    """The chips of one host with their latest values."""

    def __init__(self, chips: Sequence[Chip], source: str) -> None:
        self.chips = chips
        self.values = [DeviceValues(source, chip.device) for chip in chips]
        self.held: list[DeviceValues] = []  # with readings at the last `fill`
        self.unsure = False  # ever
        self._answers: Answers = {}
        self._per_memory = 1
        self._memory_count = 0

    def fill(self, answers: Answers, sdk: Mapping[str, Sequence[str]] | Missing) -> None:
        """One round of answers, and the SDK's newest ones."""
        self._answers = answers
        for values in self.values:
            values.clear()
        self._learn_layout(_numbered(answers.get(TOTAL, {})))
        for name, metric in COLUMNS.items():
            if name in answers:
                self._fill_metric(name, metric)
        self.held = [v for v in self.values if any(x is not None for x in v.values.values())]
        for values in self.held:
            values.check_together()
        self._fill_tensor(sdk)

    def _learn_layout(self, totals: Numbered) -> None:
        """Whether memory is told per core: then a total is about a chip's share of it."""
        chip = self.chips[0]
        self._memory_count = len(totals)
        self._per_memory = chip.cores
        for _, _, reading in totals:
            total = number(reading.value)
            if total and chip.memory_bytes and total > 0.75 * chip.memory_bytes:
                self._per_memory = 1

    def _per_chip(self, count: int) -> int:
        """How many readings of a metric belong to one chip, by how many there are."""
        if self._memory_count:
            return self._per_memory if count == self._memory_count else 1
        return self.chips[0].cores if count > len(self.chips) else 1

    def _fill_metric(self, name: str, metric: Metric) -> None:
        numbered = _numbered(self._answers[name])
        if not numbered:
            self._drop_all(metric, _why(self._answers[name]))
            return
        per = self._per_memory if name in SUMS else self._per_chip(len(numbered))
        shared = share_out(numbered, len(self.chips), per)
        if shared is None:
            count = f"{len(numbered)} devices, this host has {len(self.chips)} chips"
            self._drop_all(metric, Missing(f"the TPU runtime names {count}"))
            return
        self.unsure = self.unsure or not shared.sure
        for position, found in shared.by_chip.items():
            parts = [check(metric, reading.value) for reading in found]
            _put(self.values[position], metric, parts, name in SUMS)

    def _drop_all(self, metric: Metric, why: Missing) -> None:
        for values in self.values:
            values.drop(metric.column, why)

    def _fill_tensor(self, sdk: Mapping[str, Sequence[str]] | Missing) -> None:
        if isinstance(sdk, Missing) or "tensorcore_util" not in sdk:
            return  # it cannot speak, which is no chip's gap, or it has not spoken yet
        texts = sdk["tensorcore_util"]
        for values in self.held:
            parts = self._of_chip(texts, self.values.index(values))
            if parts:
                _put(values, TENSOR, [check(TENSOR, text) for text in parts], False)
            else:
                count = f"{len(texts)} values for {len(self.chips)} chips"
                values.drop(TENSOR.column, Missing(f"libtpu's SDK gives {count}"))

    def _of_chip(self, texts: Sequence[str], position: int) -> Sequence[str]:
        """A chip's part of one of the SDK's lists; empty when its length fits neither."""
        per, rest = divmod(len(texts), len(self.chips))
        if rest or per not in (1, self.chips[0].cores):
            return []
        return texts[position * per : (position + 1) * per]

    def counters(self, sdk: Mapping[str, Sequence[str]] | Missing) -> list[dict[str, Any]]:
        """What has no column, by held chip: the data of `device-counters` events."""
        told = {} if isinstance(sdk, Missing) else sdk
        found = []
        for values in self.held:
            position = self.values.index(values)
            data: dict[str, Any] = {"device": values.device}
            for name, key in COUNTERS.items():
                data |= self._counter(name, key, position)
            if self._per_memory > 1:
                data |= self._counter(USED, "memory_used_bytes_by_core", position)
            for name, key in SDK_COUNTERS.items():
                texts = self._of_chip(told.get(name, ()), position)
                if texts:
                    data[key] = [number(text) for text in texts]
            if len(data) > 1:
                found.append(data)
        return found

    def _counter(self, name: str, key: str, position: int) -> dict[str, Any]:
        numbered = _numbered(self._answers.get(name, {}))
        per = self._per_memory if name in SUMS else self._per_chip(len(numbered))
        shared = share_out(numbered, len(self.chips), per)
        if shared is None or position not in shared.by_chip:
            return {}
        numbers = [number(reading.value) for reading in shared.by_chip[position]]
        return {key: numbers} if any(n is not None and n >= 0 for n in numbers) else {}


def _put(values: DeviceValues, metric: Metric, parts: Sequence[Any], is_sum: bool) -> None:
    """Cores together are a chip; one core without a reading leaves the chip without."""
    for part in parts:
        if isinstance(part, Missing):
            values.drop(metric.column, part)
            return
    whole = sum(parts) if is_sum else sum(parts) / len(parts)
    values.values[metric.column] = int(whole) if metric.whole else whole
    values.missing.pop(metric.column, None)


def _numbered(by_port: Mapping[int, list[Reading] | Missing]) -> Numbered:
    return [
        (port, reading.device or 0, reading)
        for port, found in by_port.items()
        if not isinstance(found, Missing)
        for reading in found
    ]


def _why(by_port: Mapping[int, list[Reading] | Missing]) -> Missing:
    """Why a metric has no reading at any port."""
    reasons = [found for found in by_port.values() if isinstance(found, Missing)]
    answered = [found for found in reasons if found.code is not None]
    return (answered or reasons or [Missing("the TPU runtime gives no value of it")])[0]
