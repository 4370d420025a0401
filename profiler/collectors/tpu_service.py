"""libtpu's metric service: a gRPC server inside each process that holds TPU chips.

All questions of a round go out at once and share one deadline, so a runtime that hangs costs that
deadline and no more. A process that has not started the TPU yet has no server: UNAVAILABLE.
"""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .nvml_driver import Missing
from .tpu_wire import Reading, readings, request

METHOD = "/tpu.monitoring.runtime.RuntimeMetricService/GetRuntimeMetric"
PORTS_VARIABLE = "TPU_RUNTIME_METRICS_PORTS"
DEFAULT_PORT = 8431
MOST_PORTS = 16
INSTALL = "grpcio is not installed: pip install 'accelprof[tpu]'"
SILENT = Missing("no TPU runtime answers")
HANGS = Missing("the TPU runtime does not answer in time")
OPTIONS = (
    ("grpc.enable_http_proxy", 0),  # loopback is nothing for a proxy
    ("grpc.enable_retries", 0),
    # After a refused connection gRPC would not try again for up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
Answers = dict[str, dict[int, list[Reading] | Missing]]  # by metric, by port


def load_grpc() -> Any:
    """The module grpc, or why there is none."""
    try:
        return importlib.import_module("grpc")
    except Exception as error:  # a broken build may raise anything
        return Missing(INSTALL if isinstance(error, ImportError) else f"grpcio fails: {error}")


def ports(text: str | None) -> list[int]:
    """The ports that a value of TPU_RUNTIME_METRICS_PORTS names."""
    found = [int(part) for part in re.findall(r"\d+", text or "") if 0 < int(part) < 2**16]
    return list(dict.fromkeys(found))


def all_ports(
    environment: Mapping[str, str], pids: Iterable[int], root: Path = Path("/")
) -> list[int]:
    """Of our own environment and of the job's processes, which may have been given their own."""
    found = ports(environment.get(PORTS_VARIABLE))
    for pid in pids:
        try:
            text = (root / f"proc/{pid}/environ").read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        for entry in text.split("\0"):
            name, _, value = entry.partition("=")
            if name == PORTS_VARIABLE:
                found += ports(value)
    return list(dict.fromkeys(found))[:MOST_PORTS] or [DEFAULT_PORT]


class Service:
    """The servers of this host, by port. Use from one thread."""

    def __init__(self, grpc: Any, timeout_s: float = 0.8) -> None:
        self._grpc, self._timeout_s = grpc, timeout_s
        self._channels: dict[int, Any] = {}
        self._calls: dict[int, Any] = {}

    def ask(self, names: Sequence[str], ports: Sequence[int]) -> Answers:
        """Every metric of every port, within the timeout. Raises nothing."""
        until = time.monotonic() + self._timeout_s
        asked = [
            (name, port, self._call(port).future(request(name), timeout=self._timeout_s))
            for port in ports
            for name in names
        ]
        found: Answers = {name: {} for name in names}
        for name, port, future in asked:
            found[name][port] = self._take(future, until - time.monotonic())
        return found

    def _call(self, port: int) -> Any:
        if port not in self._calls:
            channel = self._grpc.insecure_channel(f"localhost:{port}", options=OPTIONS)
            self._channels[port] = channel
            self._calls[port] = channel.unary_unary(METHOD)  # bytes in, bytes out
        return self._calls[port]

    def _take(self, future: Any, left_s: float) -> list[Reading] | Missing:
        try:
            return readings(future.result(timeout=max(0.05, left_s)))
        except self._grpc.FutureTimeoutError:
            future.cancel()
            return HANGS
        except self._grpc.RpcError as error:
            code = getattr(error.code(), "name", "UNKNOWN")
            if code == "UNAVAILABLE":
                return SILENT
            if code in ("DEADLINE_EXCEEDED", "CANCELLED"):
                return HANGS
            return Missing(f"the TPU runtime says {code}: {error.details()}"[:200], 3)
        except ValueError as error:
            return Missing(f"the TPU runtime's answer cannot be read: {error}", 3)

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
