"""The TPU chips of this host: what their runtime tells on loopback, and what its SDK adds.

Nothing is asked over the network, and nothing at all without chips on the PCI bus.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import Collector, Finished, Gap, Row
from .device_values import first_number
from .nvml_driver import Missing
from .tpu_board import COLUMNS, COUNTERS, TENSOR, UNSURE, Board
from .tpu_chips import Chip, find_chips
from .tpu_latency import METRICS as LATENCIES
from .tpu_latency import Latencies
from .tpu_sdk import Sdk
from .tpu_sdk import command as sdk_command
from .tpu_service import HANGS, SILENT, Answers, Service, all_ports, load_grpc

S = 10**9
GRACE_NS = 10 * S  # a job may take so long to start the TPU before its silence is told
SELDOM_NS = 10 * S  # latencies, queues, the list of ports
REST_NS = 60 * S  # a metric that the runtime does not know is asked again after this


class TpuCollector(Collector):
    """Rows of device, device_sample, event and gap."""

    name = "tpu"
    default_rate_hz = 1.0

    def __init__(
        self,
        *,
        pids: Callable[[], Collection[int]] = tuple,
        root: Path = Path("/"),
        environment: Mapping[str, str] | None = None,
        grpc: Callable[[], Any] = load_grpc,
        sdk: Callable[[], Sequence[str] | None] = sdk_command,
        timeout_s: float = 0.8,
        sdk_deadline_s: float = 20.0,
    ) -> None:
        self._pids, self._root = pids, root
        self._environment = os.environ if environment is None else environment
        self._load_grpc, self._sdk_command = grpc, sdk
        self._timeout_s, self._sdk_deadline_s = timeout_s, sdk_deadline_s
        self._chips: list[Chip] = []
        self._board: Board | None = None
        self._service: Service | None = None
        self._sdk: Sdk | None = None
        self._latencies = Latencies()
        self._ports: list[int] = []
        self._resting: dict[str, int] = {}  # metric: asked again at, ns
        self._told: set[str] = set()
        self._devices_told = False
        self._quiet_since_ns: int | None = None
        self._seldom_due_ns = 0

    def probe(self) -> list[Gap]:
        self._chips = find_chips(self._root, first_number("Google", self._root))
        if not self._chips:
            return [Gap("*", "no TPU chip on this host's PCI bus")]
        grpc = self._load_grpc()
        if isinstance(grpc, Missing):
            chips = f"{len(self._chips)} TPU chip" + ("s are" if len(self._chips) > 1 else " is")
            return [Gap("*", f"{chips} here, but {grpc.reason}")]
        self._board = Board(self._chips, self.name)
        self._service = Service(grpc, self._timeout_s)
        self._sdk = Sdk(self._sdk_command(), self._sdk_deadline_s)
        return []

    def sample(self, t_ns: int) -> list[Row]:
        rows: list[Row] = []
        if not self._devices_told:
            self._devices_told = True
            rows += [("device", chip.row()) for chip in self._chips]
        if self._service is None or self._board is None or self._sdk is None:
            if rows:
                return rows
            raise Finished
        seldom = not self._seldom_due_ns - SELDOM_NS < t_ns < self._seldom_due_ns
        if seldom:
            self._seldom_due_ns = t_ns + SELDOM_NS
            self._ports = all_ports(self._environment, self._pids(), self._root)
        answers = self._service.ask(self._due(t_ns, seldom), self._ports)
        self._rest(answers, t_ns)
        silence = _silence(answers)
        if silence is not None:
            return rows + self._tell_silence(silence, t_ns)
        self._quiet_since_ns = None
        self._sdk.start()
        sdk = self._sdk.values()
        self._board.fill(answers, sdk)
        for values in self._board.held:
            rows += values.rows(t_ns)
        if not self._board.held:
            rows += self._tell("*", "the TPU runtime answers, but gives no values", t_ns)
        if isinstance(sdk, Missing):
            rows += self._tell(TENSOR.column, sdk.reason, t_ns)
        if self._board.unsure:
            rows += self._tell("device", UNSURE, t_ns)
        if seldom:
            rows += self._events(answers, sdk, t_ns)
        return rows

    def _due(self, t_ns: int, seldom: bool) -> list[str]:
        """The metrics to ask about now."""
        names = [*COLUMNS, *((*LATENCIES, *COUNTERS) if seldom else ())]
        return [name for name in names if t_ns >= self._resting.get(name, 0)] or [*COLUMNS]

    def _rest(self, answers: Answers, t_ns: int) -> None:
        """What no port knows is left alone for a while."""
        for name, by_port in answers.items():
            unknown = [found for found in by_port.values() if _is_refused(found)]
            if unknown and len(unknown) == len(by_port) and name not in COLUMNS:
                self._resting[name] = t_ns + REST_NS

    def _tell_silence(self, why: Missing, t_ns: int) -> list[Row]:
        """A runtime may start late and end early: only a longer silence is told."""
        if self._quiet_since_ns is None or t_ns < self._quiet_since_ns:
            self._quiet_since_ns = t_ns
        if why is SILENT and t_ns - self._quiet_since_ns < GRACE_NS:
            return []
        where = ", ".join(f"localhost:{port}" for port in self._ports)
        reason = f"{why.reason} on {where}"
        if why is SILENT:
            reason += " (no process uses the chips, or TPU_RUNTIME_METRICS_PORTS names others)"
        return self._tell("*", reason, t_ns)

    def _tell(self, metric: str, reason: str, t_ns: int) -> list[Row]:
        if reason in self._told:
            return []
        self._told.add(reason)
        return [("gap", (t_ns, self.name, metric, None, reason))]

    def _events(self, answers: Answers, sdk: Any, t_ns: int) -> list[Row]:
        assert self._board is not None
        found = [("device-counters", data) for data in self._board.counters(sdk)]
        for name in LATENCIES:
            for port, readings in answers.get(name, {}).items():
                if not isinstance(readings, Missing):
                    news = self._latencies.news(name, port, readings)
                    found += [("tpu-latencies", data) for data in news]
        return [("event", (t_ns, kind, None, None, json.dumps(data))) for kind, data in found]

    def close(self) -> None:
        if self._sdk is not None:
            self._sdk.close()
        if self._service is not None:
            self._service.close()


def _is_refused(found: object) -> bool:
    return isinstance(found, Missing) and found.code is not None


def _silence(answers: Answers) -> Missing | None:
    """Why no port says anything; None when one does, if only that it knows no such metric."""
    every = [found for by_port in answers.values() for found in by_port.values()]
    if any(found is not SILENT and found is not HANGS for found in every):
        return None
    return HANGS if HANGS in every else SILENT
