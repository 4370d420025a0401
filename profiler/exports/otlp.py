"""A run's figures and curves as OTLP metrics, to a collector by HTTP or gRPC (an extra).

`http://host:4318` and `https://...` speak protobuf over HTTP, `grpc://host:4317` gRPC; both with
the headers of OTEL_EXPORTER_OTLP_HEADERS, as OpenTelemetry's own exporters.
"""

from __future__ import annotations

import importlib
import os
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import unquote, urlsplit

from ..errors import UserError
from ..report import Report
from ..series import Series
from .values import scalars, sums, tags

POINTS = 5_000  # a request; gRPC servers take 4 MB by default
TIMEOUT_S = 15.0
PATH = "/v1/metrics"
SERVICE = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
# Units (UCUM) by the end of a name; anything else is a share or a plain number
_UNITS = (
    ("samples_per_s", "{sample}/s"), ("steps_per_s", "{step}/s"), ("_bytes", "By"), ("_ms", "ms"),
    ("step_ms/p50", "ms"), ("step_ms/p95", "ms"), ("_s", "s"), ("/usd", "{USD}"), ("_j", "J"),
    ("_w", "W"),
)  # fmt: skip
_GROUPS = {"accelprof/memory/": "By", "accelprof/power/": "W"}


def write(report: Report, series: Series, endpoint: str) -> int:
    """Sends everything; the number of data points."""
    try:
        at = urlsplit(endpoint)
        good = at.scheme in ("http", "https", "grpc") and at.hostname and at.port != 0
    except ValueError:  # brackets, or a port that is none
        good = False
    if not good or not endpoint.isascii():
        raise UserError(f"--otlp {endpoint!r}: write http://HOST:4318 or grpc://HOST:4317")
    service, metrics = _library()
    send = _by_grpc if at.scheme == "grpc" or (at.port == 4317 and not at.path) else _by_http
    count = 0
    for request, points in _requests(service, metrics, report, series):
        answer = send(endpoint, request, service)
        if answer.partial_success.rejected_data_points:
            reason = answer.partial_success.error_message or "no reason given"
            raise UserError(f"{endpoint}: did not take all points: {reason[:200]}")
        count += points
    return count


def _library() -> tuple[Any, Any]:
    names = ("collector.metrics.v1.metrics_service_pb2", "metrics.v1.metrics_pb2")
    try:
        service, metrics = (importlib.import_module(f"opentelemetry.proto.{n}") for n in names)
    except ImportError:
        raise UserError(
            "--otlp needs OpenTelemetry's messages: pip install 'accelprof[otlp]'"
        ) from None
    return service, metrics


# -- what is sent ------------------------------------------------------------------------------


def _requests(
    service: Any, metrics: Any, report: Report, series: Series
) -> Iterator[tuple[Any, int]]:
    """Requests of at most POINTS points, each with the resource that says whose they are."""
    started = _ns(report.run.started_at)
    ended = started + round((report.run.wall_s or 0.0) * 1e9)
    by_name: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for name, value in sums(report):
        by_name[name.replace("accelprof/", "accelprof/run/", 1)].append((ended, value))
    for at_s, _, name, value in scalars(series):
        by_name[name].append((started + round(at_s * 1e9), value))
    request, room = _request(service, report), POINTS
    for name, points in by_name.items():
        for at in range(0, len(points), POINTS):
            part = points[at : at + POINTS]
            if len(part) > room:
                yield request, POINTS - room
                request, room = _request(service, report), POINTS
            _gauge(request, name, started, part)
            room -= len(part)
    yield request, POINTS - room


def _request(service: Any, report: Report) -> Any:
    request = service.ExportMetricsServiceRequest()
    resource = request.resource_metrics.add()
    attributes = {
        "service.name": report.run.name or "accelprof", "service.instance.id": report.run.id,
        "host.name": report.run.host, "process.command": " ".join(report.run.command)[:2000],
    } | {f"accelprof.{key}": value for key, value in tags(report).items()}  # fmt: skip
    attributes |= {f"accelprof.tag.{key}": value for key, value in report.run.tags.items()}
    for key, text in attributes.items():
        one = resource.resource.attributes.add()
        one.key, one.value.string_value = _text(key), _text(text)
    resource.scope_metrics.add().scope.name = "accelprof"
    return request


def _text(text: str) -> str:
    """Protobuf takes no lone surrogates."""
    return text.encode("utf-8", "replace").decode()


def _gauge(request: Any, name: str, started: int, points: list[tuple[int, float]]) -> None:
    metric = request.resource_metrics[0].scope_metrics[0].metrics.add()
    metric.name, metric.unit = name.replace("/", "."), unit(name)
    for at, value in points:
        point = metric.gauge.data_points.add()
        point.start_time_unix_nano, point.time_unix_nano, point.as_double = started, at, value


def unit(name: str) -> str:
    """The unit of a metric, as UCUM writes it."""
    for begin, found in _GROUPS.items():
        if name.startswith(begin):
            return found
    return next((found for end, found in _UNITS if name.endswith(end)), "1")


def _ns(iso: str | None) -> int:
    return 0 if iso is None else round(datetime.fromisoformat(iso).timestamp() * 1e9)


# -- how it is sent ----------------------------------------------------------------------------


def _headers() -> dict[str, str]:
    given = os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "")
    pairs = (word.partition("=") for word in given.split(",") if "=" in word)
    return {key.strip().lower(): unquote(value.strip()) for key, _, value in pairs}


def _by_http(endpoint: str, request: Any, service: Any) -> Any:
    address = endpoint.rstrip("/")
    address = address if urlsplit(address).path else address + PATH
    headers = _headers() | {"content-type": "application/x-protobuf"}
    post = urllib.request.Request(address, request.SerializeToString(), headers, method="POST")
    try:
        with urllib.request.urlopen(post, timeout=TIMEOUT_S) as answer:
            return service.ExportMetricsServiceResponse.FromString(answer.read())
    except urllib.error.HTTPError as error:
        raise UserError(f"{endpoint}: refused with {error.code} {error.reason}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise UserError(f"{endpoint}: no answer ({reason})") from None
    except Exception:  # protobuf's own error: not an answer of OTLP
        raise UserError(f"{endpoint}: answered, but not as OTLP does") from None


def _by_grpc(endpoint: str, request: Any, service: Any) -> Any:
    try:
        grpc: Any = importlib.import_module("grpc")
    except ImportError:
        raise UserError("grpc:// needs grpcio: pip install 'accelprof[otlp]'") from None
    at = urlsplit(endpoint)
    with grpc.insecure_channel(f"{at.hostname}:{at.port or 4317}") as channel:
        export = channel.unary_unary(
            SERVICE, request_serializer=service.ExportMetricsServiceRequest.SerializeToString,
            response_deserializer=service.ExportMetricsServiceResponse.FromString,
        )  # fmt: skip
        try:
            return export(request, timeout=TIMEOUT_S, metadata=list(_headers().items()))
        except grpc.RpcError as error:
            detail = (error.details() or error.code().name).splitlines()[0][:200]
            raise UserError(f"{endpoint}: {detail}") from None
