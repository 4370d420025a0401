"""Samples every NVIDIA device: the fast calls at each sample, the slow ones in a lane of their own.

Nothing here raises and nothing here waits long: opening NVML, the fast calls and the slow calls
each run on watched daemon threads, and a call that hangs costs its own metrics alone.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from .nvml_card import Card, GpmReading, Reading, S
from .nvml_driver import ADMIN, LIBRARY_FOLDERS, Missing, load_bindings
from .nvml_notes import Notes
from .nvml_open import Opened, catalogue_id, memory_bytes, open_nvml
from .nvml_watch import Job, Watch

SLOW_PERIOD_NS = S
ALL = "*"  # a gap of every metric
HANGS = Missing("the driver call hangs", None, f"{ADMIN}: the driver or the GPU is stuck")
Row = tuple[str, Any]


class Sampling:
    """The devices of this host while they are sampled. Use from one thread."""

    def __init__(
        self,
        *,
        environment: Mapping[str, str] | None = None,
        tree: Callable[[], Collection[int]] = tuple,
        folders: Sequence[str] = LIBRARY_FOLDERS,
        root: Path = Path("/"),
        bindings: Callable[[], ModuleType | Missing] = load_bindings,
        deadline_s: float = 0.3,
    ) -> None:
        self.opened: Opened | None = None
        self.cards: list[Card] = []
        self._environment = os.environ if environment is None else environment
        self._options = {
            "environment": self._environment,
            "folders": folders,
            "root": root,
            "bindings": bindings,
        }
        self._tree, self._root = tree, root
        self._open_done = threading.Event()
        self._opener: threading.Thread | None = None
        self._opening: Opened | None = None
        self._watch = Watch("nvml", deadline_s)
        self._lane: SlowLane | None = None
        self._lost: set[int] = set()
        self._last_ns = 0
        self._new = False

    def open(self, wait_s: float = 10.0) -> bool:
        """Opens NVML, waiting so long at most; later it goes on by itself. True when it is open.

        Without persistence mode the first opening wakes each GPU for about a second.
        """
        if self._opener is None:
            self._opener = threading.Thread(target=self._open, name="nvml-open", daemon=True)
            self._opener.start()
        self._open_done.wait(wait_s)
        return self._take_opened()

    def _open(self) -> None:
        try:
            self._opening = open_nvml(**self._options)  # type: ignore[arg-type]
        except Exception as error:  # a fault of ours must not look like a missing driver
            why = Missing(f"accelprof could not open NVML: {type(error).__name__}: {error}")
            self._opening = Opened(failure=why)
        self._open_done.set()

    def absent(self) -> list[tuple[int, Missing]]:
        """Devices that the driver counts but does not hand out."""
        return self.opened.absent if self.opened else []

    def _take_opened(self) -> bool:
        if self.opened is not None:
            return self.failure is None
        if not self._open_done.is_set() or self._opening is None:
            return False
        self.opened = self._opening
        if self.opened.failure is None:
            self.cards = self.opened.cards
            notes = Notes(self.opened.nvml, self.cards, self._tree, self._root, self._environment)
            self._lane = SlowLane(self.cards, notes)
            self._new = True
        return self.opened.failure is None

    @property
    def failure(self) -> Missing | None:
        """Why nothing can be sampled; None when something can, or when it is not known yet."""
        return self.opened.failure if self.opened else None

    @property
    def opening(self) -> bool:
        return self.opened is None

    def sample(self, t_ns: int) -> list[Row]:
        """Rows of device_sample, and what else came up: `device`, `event` and `gap` rows."""
        if not self._take_opened():
            return []
        rows: list[Row] = []
        if t_ns < self._last_ns:
            for card in self.cards:
                card.rewind()
        self._last_ns = t_ns
        jobs = [job for card in self.cards for job in card.due(t_ns, slow=False)]
        self._watch.run(jobs, _hung)
        lane = self._lane
        assert lane is not None
        lane.kick(t_ns)
        while lane.notes.events:
            kind, at_ns, data = lane.notes.events.popleft()
            rows.append(("event", (at_ns, kind, None, None, json.dumps(data))))
        for card in self.cards:
            card.finish(t_ns)
            if self._new:
                rows.append(("device", device_row(card)))
            rows.append(("device_sample", card.row(t_ns)))
            self._tell_lost(card, t_ns, rows)
            for column, reason in card.gaps(t_ns):
                rows.append(("gap", (t_ns, "nvml", column, card.device, reason)))
        for device, why in self.absent() if self._new else ():
            rows.append(("gap", (t_ns, "nvml", ALL, device, why.reason)))
        self._new = False
        return rows

    def _tell_lost(self, card: Card, t_ns: int, rows: list[Row]) -> None:
        """A lost device is one gap and one event, not one a metric."""
        if card.lost == (card.device in self._lost):
            return
        kind = "device-lost" if card.lost else "device-back"
        data = {"device": card.device, "uuid": card.uuid, "name": card.name}
        rows.append(("event", (t_ns, kind, None, None, json.dumps(data))))
        if card.lost:
            self._lost.add(card.device)
            reason = card.missing["power_w"].reason if "power_w" in card.missing else "lost"
            rows.append(("gap", (t_ns, "nvml", ALL, card.device, reason)))
        else:
            self._lost.discard(card.device)

    def wait_for_slow(self, timeout_s: float = 10.0) -> bool:
        """Waits until the slow lane has finished its pass: for probes and tests."""
        return self._lane is None or self._lane.idle.wait(timeout_s)

    def close(self) -> None:
        """Frees NVML, unless a call is still inside it: then the process's end does it."""
        free = self._watch.close()
        free = (self._lane is None or self._lane.close()) and free
        if self.opened is None or self.opened.nvml is None or not free:
            return
        if self.opened.failure is None:
            try:
                self.opened.nvml.nvmlShutdown()
            except Exception:
                return


class SlowLane:
    """A thread that makes the slow calls when kicked; results lie in the cards and the notes."""

    def __init__(self, cards: Sequence[Card], notes: Notes) -> None:
        self.cards, self.notes = cards, notes
        self.idle = threading.Event()
        self.idle.set()
        self._watch = Watch("nvml-slow", deadline_s=2.0)
        self._wake = threading.Event()
        self._t_ns = 0
        self._due_ns = 0
        self._closed = False
        self._thread: threading.Thread | None = None

    def kick(self, t_ns: int) -> None:
        """Starts a pass when one is due and none is under way."""
        set_back = t_ns < self._t_ns
        if (t_ns < self._due_ns and not set_back) or not self.idle.is_set():
            return
        self._due_ns = t_ns + SLOW_PERIOD_NS
        self._t_ns = t_ns
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="nvml-lane", daemon=True)
            self._thread.start()
        self.idle.clear()
        self._wake.set()

    def close(self) -> bool:
        self._closed = True
        self._wake.set()
        return self._watch.close() and self.idle.is_set()

    def _serve(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._closed:
                return
            jobs = list(self.notes.due(self._t_ns))
            jobs += [job for card in self.cards for job in card.due(self._t_ns, slow=True)]
            self._watch.run(jobs, _hung)
            self.idle.set()


def _hung(job: Job) -> None:
    """A call that hangs is missing, like one that failed."""
    owner = getattr(job.accept, "__self__", None)
    if isinstance(owner, Reading):
        owner.store(HANGS)
    elif isinstance(owner, GpmReading):
        owner.hung(HANGS)


def device_row(card: Card) -> tuple[Any, ...]:
    """A row of the table `device`."""
    details = {key: value for key, value in card.details.items() if value is not None}
    if card.parent is None:
        details["energy"] = card.energy.source
    return (
        card.device,
        card.uuid,
        card.name,
        "gpu",
        catalogue_id(card),
        memory_bytes(card),
        json.dumps(details),
    )
