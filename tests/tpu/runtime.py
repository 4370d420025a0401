"""A stand-in for libtpu's metric service: a real gRPC server that answers what a test tells it.

Its messages are written by an encoder of its own, so that accelprof's reader is not checked
against itself; the real tpu-info reads the same server.
"""

from __future__ import annotations

import struct
import threading
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc

SERVICE = "tpu.monitoring.runtime.RuntimeMetricService"
HANG = "hang"
GARBAGE = "garbage"

CHIP_IDS = {  # catalogue: (device, subsystem)
    "tpu-v2": ("0x0027", "0x004e"),
    "tpu-v3": ("0x0027", "0x004f"),
    "tpu-v4": ("0x005e", "0x0000"),
    "tpu-v5e": ("0x0063", "0x0000"),
    "tpu-v6e": ("0x006f", "0x0000"),
    "tpu-v7x": ("0x0076", "0x0000"),
}


def chips(root: Path, kind: str, count: int, functions: int = 1) -> Path:
    """A tree of /sys with so many chips; IOMMU groups count against the bus order."""
    for chip in range(count):
        for function in range(functions):
            folder = root / f"sys/bus/pci/devices/0000:00:{chip + 4:02x}.{function}"
            folder.mkdir(parents=True)
            device, subsystem = CHIP_IDS[kind]
            texts = {"vendor": "0x1ae0", "device": device, "subsystem_device": subsystem}
            for name, text in (texts | {"class": "0x120000"}).items():
                (folder / name).write_text(text + "\n")
            group = root / f"sys/kernel/iommu_groups/{count - chip}"
            group.mkdir(parents=True, exist_ok=True)
            (folder / "iommu_group").symlink_to(group)
    return root


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, value: Any) -> bytes:
    """One field: int as varint, float as double, str and bytes with their length."""
    if isinstance(value, bool | int):
        return varint(number << 3) + varint(int(value))
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def of_device(device: int) -> bytes:
    return field(1, "device-id") + field(2, field(3, device))


def of_labels(labels: dict[str, Any]) -> bytes:
    parts = b"".join(
        field(1, field(1, key) + field(2, field(1 if isinstance(value, str) else 3, value)))
        for key, value in labels.items()
    )
    return field(1, "labels") + field(2, field(6, parts))


def gauge(device: int | dict[str, Any], value: Any) -> bytes:
    """Metric{1 attribute, 3 gauge}."""
    attribute = of_labels(device) if isinstance(device, dict) else of_device(device)
    return field(1, attribute) + field(3, field(1 if isinstance(value, float) else 2, value))


def histogram(labels: dict[str, Any], buckets: list[int], mean: float) -> bytes:
    """Metric{1 attribute, 5 distribution} with bounds 1, 2, 4, 8 ..."""
    options = field(2, field(1, len(buckets) - 2) + field(2, 2.0) + field(3, 1.0))
    packed = b"".join(varint(count) for count in buckets)
    body = field(1, sum(buckets)) + field(2, mean) + field(6, options) + field(7, packed)
    return field(1, of_labels(labels)) + field(5, body)


class Runtime:
    """`metrics` by name: list of encoded Metrics, a grpc.StatusCode, HANG or GARBAGE."""

    def __init__(self, port: int = 0) -> None:
        self.metrics: dict[str, Any] = {}
        self.asked: list[str] = []
        self._release = threading.Event()
        self._server = grpc.server(
            futures.ThreadPoolExecutor(max_workers=32), options=(("grpc.so_reuseport", 0),)
        )
        handler = grpc.unary_unary_rpc_method_handler(self._answer)
        handlers = {"GetRuntimeMetric": handler}
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, handlers),)
        )
        self.port = self._server.add_insecure_port(f"localhost:{port}")
        self._server.start()

    def _answer(self, request: bytes, context: Any) -> bytes:
        name = request[2:].decode() if len(request) < 130 else ""
        self.asked.append(name)
        told = self.metrics.get(name, grpc.StatusCode.NOT_FOUND)
        if told == HANG:
            self._release.wait(20)
        if isinstance(told, grpc.StatusCode):
            context.abort(told, f"no metric {name}")
        if told in (HANG, GARBAGE):
            return b"\x0a\xff\xff\x01"
        body = field(1, name) + b"".join(field(3, metric) for metric in told)
        return field(1, body)

    def close(self) -> None:
        self._release.set()
        self._server.stop(None)
