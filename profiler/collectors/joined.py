"""Device readings of the host's always-on recorder, so that a run does not sample them once more.

Its rows are up to a second old when they come; what it has by the run's end is asked for then. When
the recorder ends in between, `on_lost` starts the collectors that this one stood for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from ...storage.live import FrameError, LiveClient, LiveError
from . import Collector, Finished, Gap, Row

STANDS_FOR = ("nvml", "dcgm", "tpu", "amd", "intel")  # collectors
_EVENTS = ("device-processes", "xid", "device-counters", "device-lost", "device-back")
_SECOND_NS = 1_000_000_000


class JoinedCollector(Collector):
    """Rows of device, device_sample, event and gap, out of the recorder in `folder`."""

    name = "daemon"
    default_rate_hz = 1.0

    def __init__(
        self,
        folder: Path,
        *,
        since_ns: int,
        pids: Callable[[], Collection[int]] = tuple,
        on_lost: Callable[[], object] = lambda: None,
    ) -> None:
        self._folder = folder
        self._pids = pids
        self._on_lost = on_lost
        self._sample_ns = self._event_ns = since_ns
        self._client: LiveClient | None = None
        self._told: set[tuple[Any, ...]] = set()

    def probe(self) -> list[Gap]:
        self._client = LiveClient(self._folder, timeout_s=self.deadline_s)
        return []

    def sample(self, t_ns: int) -> list[Row]:
        try:
            return [*self._about(), *self._samples(), *self._events()]
        except (OSError, FrameError, LiveError):
            self._on_lost()
            raise Finished from None

    def last(self, t_ns: int) -> list[Row]:
        try:
            return [*self._samples(), *self._events()]
        except (OSError, FrameError, LiveError):
            return []

    def _select(self, sql: str, *params: Any) -> list[dict[str, Any]]:
        if self._client is None:
            raise ConnectionRefusedError
        columns, rows = self._client.select(sql, params)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def _about(self) -> list[Row]:
        """The devices, and what cannot be read of them; each once."""
        found: list[Row] = []
        marks = ", ".join("?" for _ in STANDS_FOR)
        gaps = f"SELECT DISTINCT * EXCLUDE (t_ns) FROM gap WHERE source IN ({marks})"
        for row in self._select("FROM device"):
            found += self._once("device", row)
        for row in self._select(gaps, *STANDS_FOR):
            found += self._once("gap", {"t_ns": self._sample_ns, **row}, leave_out="t_ns")
        return found

    def _once(self, table: str, row: dict[str, Any], *, leave_out: str = "") -> list[Row]:
        key = (table, *(str(value) for name, value in row.items() if name != leave_out))
        if key in self._told:
            return []
        self._told.add(key)
        return [(table, row)]

    def _samples(self) -> list[Row]:
        rows = self._select(
            "FROM device_sample WHERE t_ns > ? ORDER BY t_ns LIMIT 5000", self._sample_ns
        )
        if rows:
            self._sample_ns = rows[-1]["t_ns"]
        return [("device_sample", row) for row in rows]

    def _events(self) -> list[Row]:
        marks = ", ".join("?" for _ in _EVENTS)
        rows = self._select(
            f"FROM event WHERE t_ns > ? AND kind IN ({marks}) ORDER BY t_ns LIMIT 1000",
            self._event_ns, *_EVENTS,
        )  # fmt: skip
        if rows:
            self._event_ns = rows[-1]["t_ns"]
        return [("event", self._ours(row)) for row in rows]

    def _ours(self, row: dict[str, Any]) -> dict[str, Any]:
        """Of the recorder's jobs any is its own; here only this run's."""
        try:
            data = json.loads(row["data"])
            uses = data.get("processes") or []
        except (ValueError, TypeError, AttributeError):
            return row
        mine = set(self._pids())
        for use in uses:
            if use.get("pid") in mine:
                use["ours"] = True
            elif use.get("ours"):
                use["ours"] = False
        return row | {"data": data}

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
