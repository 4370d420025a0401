"""What NVML tells beside samples, as `event` rows: processes, Xid errors, counters.

Kinds: `device-processes` when the set of processes on a device changes, `xid` at each error,
`device-counters` every 10 s (throttled time, ECC, PCIe replays, pipes, NVLink), `cuda-visible` for
each other CUDA_VISIBLE_DEVICES that a process of the job was started with.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from .nvml_card import Card, S
from .nvml_driver import LASTING, Missing, explain
from .nvml_fields import SENTINELS, XIDS
from .nvml_open import cuda_devices
from .nvml_processes import (
    Use,
    attribute,
    in_initial_namespace,
    read_processes,
    start_ticks,
)  # fmt: skip
from .nvml_watch import Job

XID_EVENT = 8
COUNTERS_NS = 10 * S
VIOLATIONS = {0: "power", 1: "thermal", 2: "sync_boost", 3: "board_limit", 5: "reliability"}
ALL_LINKS = 2**32 - 1
FIELDS: tuple[tuple[int, int, str], ...] = (  # NVML field id, scope, name
    (82, 0, "memory_temperature_c"),
    (138, ALL_LINKS, "nvlink_tx_kib"),
    (139, ALL_LINKS, "nvlink_rx_kib"),
    (38, 0, "nvlink_crc_errors"),
    (52, 0, "nvlink_replay_errors"),
    (59, 0, "nvlink_recovery_errors"),
    (142, 0, "remapped_rows_correctable"),
    (143, 0, "remapped_rows_uncorrectable"),
    (145, 0, "remapping_failures"),
)
# Which member of the union holds a value, by nvmlValueType_t.
VALUE_MEMBERS = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal"}
Event = tuple[str, int, dict[str, Any]]  # kind, t_ns, data


class Notes:
    """Makes the jobs of the slow lane that end in events; `events` holds what they found."""

    def __init__(
        self,
        nvml: Any,
        cards: Iterable[Card],
        tree: Callable[[], Collection[int]],
        root: Path = Path("/"),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`environment`: by which `device.details.cuda_ordinal` was told."""
        self.nvml, self.cards, self.tree, self.root = nvml, list(cards), tree, root
        self.events: deque[Event] = deque(maxlen=10_000)
        self.t_ns = 0
        self._host_pids = in_initial_namespace(root)
        self._job_start = start_ticks(os.getpid(), root)
        self._told: dict[int, object] = {}
        self._xid_set: Any = None
        self._resting: set[object] = set()
        self._counters_due_ns = 0
        self._environments = {_cuda_words(environment)}
        self._known_pids: set[int] = set()
        self._jobs = [
            Job(("processes", card.device), self._reader(card), self._taker(card))
            for card in self.cards
        ]
        self._xid_job = Job(("xid", None), self._read_xids, self._take_xids)
        self._counter_jobs = [
            Job(("counters", card.device), self._counter_reader(card), self._counter_taker(card))
            for card in self.cards
            if card.parent is None
        ]

    def due(self, t_ns: int) -> Iterable[Job]:
        if t_ns < self.t_ns:  # the clock was set back
            self._counters_due_ns = t_ns
        self.t_ns = t_ns
        self._look_at_environments()
        yield from (job for job in self._jobs if job.key not in self._resting)
        if self._xid_job.key not in self._resting:
            yield self._xid_job
        if t_ns >= self._counters_due_ns:
            self._counters_due_ns = t_ns + COUNTERS_NS
            yield from self._counter_jobs

    def _look_at_environments(self) -> None:
        """A job may set its own CUDA_VISIBLE_DEVICES for its ranks: env, a script, a launcher."""
        pids = set(self.tree())
        for pid in pids - self._known_pids:
            words = _cuda_words(_environ(pid, self.root))
            if words in self._environments or words is None:
                continue
            self._environments.add(words)
            order, value = words
            given = {"CUDA_DEVICE_ORDER": order, "CUDA_VISIBLE_DEVICES": value}
            known = {key: text for key, text in given.items() if text is not None}
            devices, note = cuda_devices(self.cards, known)
            data = {"pid": pid, "value": value, "devices": devices, "note": note}
            self.events.append(("cuda-visible", self.t_ns, data))
        self._known_pids = pids

    # Processes

    def _reader(self, card: Card) -> Callable[[], list[Use] | Missing]:
        return lambda: read_processes(self.nvml, card.handle)

    def _taker(self, card: Card) -> Callable[[list[Use] | Missing], None]:
        return lambda uses: self._take_processes(card, uses)

    def _take_processes(self, card: Card, uses: list[Use] | Missing) -> None:
        if isinstance(uses, Missing):
            card.process_bytes = None
            if uses.code in LASTING:
                self._resting.add(("processes", card.device))
                data = {"device": card.device, "processes": None, "reason": uses.reason}
                self.events.append(("device-processes", self.t_ns, data))
            return
        sizes = [use.memory_bytes for use in uses if use.memory_bytes is not None]
        # An empty list says little: containers often see no process at all.
        card.process_bytes = sum(sizes) if sizes and len(sizes) == len(uses) else None
        found = attribute(
            uses,
            self.tree(),
            host_pids=self._host_pids,
            job_start_ticks=self._job_start,
            started=lambda pid: start_ticks(pid, self.root),
        )
        what = (found.known, tuple((use.pid, use.ours) for use in found.uses))
        if self._told.get(card.device, (True, ())) == what:
            return
        self._told[card.device] = what
        self.events.append(
            (
                "device-processes",
                self.t_ns,
                {
                    "device": card.device,
                    "attribution": "known" if found.known else "unknown",
                    "reason": found.reason,
                    "processes": [
                        {"pid": use.pid, "memory_bytes": use.memory_bytes, "ours": use.ours}
                        for use in found.uses
                    ],
                },
            )
        )

    # Xid errors

    def _read_xids(self) -> list[tuple[int | None, int]] | Missing:
        """(device, Xid) since the last time. A wait of 0 ms never blocks."""
        nvml = self.nvml
        found: list[tuple[int | None, int]] = []
        try:
            if self._xid_set is None:
                self._xid_set = self._register()
            while len(found) < 100:
                event = nvml.nvmlEventSetWait_v2(self._xid_set, 0)
                found.append((self._device_of(event.device), int(event.eventData)))
        except Exception as error:
            missing = explain(error)
            if getattr(error, "value", None) == nvml.NVML_ERROR_TIMEOUT:
                return found
            return found or missing
        return found

    def _register(self) -> Any:
        nvml = self.nvml
        events = nvml.nvmlEventSetCreate()
        registered, last = 0, None
        for card in self.cards:
            if card.parent is None:
                try:
                    nvml.nvmlDeviceRegisterEvents(card.handle, XID_EVENT, events)
                    registered += 1
                except Exception as error:
                    last = error
        if last is not None and not registered:
            raise last
        return events

    def _device_of(self, handle: Any) -> int | None:
        """The device of an event's handle (a fresh pointer: compare where it points)."""
        address = _address(handle)
        for card in self.cards:
            if _address(card.handle) == address:
                return card.device
        return None

    def _take_xids(self, found: list[tuple[int | None, int]] | Missing) -> None:
        if isinstance(found, Missing):
            self._resting.add(self._xid_job.key)
            return
        for device, xid in found:
            data = {"device": device, "xid": xid, "meaning": XIDS.get(xid)}
            self.events.append(("xid", self.t_ns, data))

    # Counters

    def _counter_reader(self, card: Card) -> Callable[[], dict[str, int]]:
        return lambda: read_counters(self.nvml, card.handle)

    def _counter_taker(self, card: Card) -> Callable[[dict[str, int]], None]:
        def take(counters: dict[str, int]) -> None:
            data = {"device": card.device, **counters, **card.extras}
            if counters or card.extras:
                self.events.append(("device-counters", self.t_ns, data))

        return take


def _cuda_words(environment: Mapping[str, str] | None) -> tuple[str | None, str | None] | None:
    if environment is None:
        return None
    return environment.get("CUDA_DEVICE_ORDER"), environment.get("CUDA_VISIBLE_DEVICES")


def _environ(pid: int, root: Path) -> Mapping[str, str] | None:
    """What the process was started with; None when it is not ours to read."""
    try:
        raw = (root / "proc" / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    if not raw:  # a zombie
        return None
    pairs = (word.partition("=") for word in raw.decode("utf-8", "replace").split("\0"))
    return {name: value for name, _, value in pairs if name.startswith("CUDA_")}


def _address(handle: Any) -> int:
    import ctypes

    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def read_counters(nvml: Any, handle: Any) -> dict[str, int]:
    """Counters since the driver was loaded; those that cannot be read are left out."""
    found: dict[str, int] = {}

    def note(key: str, read: Callable[[], int]) -> None:
        try:
            value = read()
        except Exception:
            return
        if value not in SENTINELS:
            found[key] = int(value)

    def violation(policy: int) -> Callable[[], int]:
        return lambda: nvml.nvmlDeviceGetViolationStatus(handle, policy).violationTime

    for policy, name in VIOLATIONS.items():
        note(f"violation_{name}_ns", violation(policy))
    note("pcie_replays", lambda: nvml.nvmlDeviceGetPcieReplayCounter(handle))
    note("ecc_corrected", lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, 0, 0))
    note("ecc_uncorrected", lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, 1, 0))
    return found | _read_fields(nvml, handle)


def _read_fields(nvml: Any, handle: Any) -> dict[str, int]:
    """Each value of the call carries its own return code."""
    try:
        values = nvml.nvmlDeviceGetFieldValues(handle, [(id_, scope) for id_, scope, _ in FIELDS])
    except Exception:
        return {}
    found = {}
    for value, (_, _, name) in zip(values, FIELDS, strict=True):
        member = VALUE_MEMBERS.get(value.valueType)
        if value.nvmlReturn or member is None:
            continue
        number = getattr(value.value, member)
        if number not in SENTINELS and number >= 0:
            found[name] = int(number)
    if not 0 < found.get("memory_temperature_c", 1) < 150:
        del found["memory_temperature_c"]
    return found
