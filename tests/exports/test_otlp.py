"""`accelprof export --otlp`: what real receivers of OpenTelemetry's protocol get."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "comparison"))
import recorded
from running import accelprof, refused

service = pytest.importorskip(
    "opentelemetry.proto.collector.metrics.v1.metrics_service_pb2", reason="needs the extra"
)
START_NS: int = recorded.recording.START_NS


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("home")
    recorded.record(path, gpu=True)
    return path


class Receiver:
    """Over HTTP; keeps requests and their headers, answers as it is told to."""

    def __init__(self, answer: Callable[[Any], tuple[int, bytes]]) -> None:
        self.requests: list[Any] = []
        self.headers: list[dict[str, str]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.headers.append({k.lower(): v for k, v in self.headers.items()})
                receiver.headers[-1]["path"] = self.path
                receiver.requests.append(service.ExportMetricsServiceRequest.FromString(body))
                status, text = answer(receiver.requests[-1])
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def receive() -> Iterator[Callable[..., Receiver]]:
    made: list[Receiver] = []

    def make(answer: Callable[[Any], tuple[int, bytes]] = lambda _: (200, b"")) -> Receiver:
        made.append(Receiver(answer))
        return made[-1]

    yield make
    for one in made:
        one.server.shutdown()
        one.server.server_close()


def check(requests: list[Any]) -> None:
    """What came is the recorded run."""
    metrics = {m.name: m for r in requests for m in r.resource_metrics[0].scope_metrics[0].metrics}
    resource = {a.key: a.value.string_value for a in
                requests[0].resource_metrics[0].resource.attributes}  # fmt: skip
    assert resource["service.instance.id"] == recorded.RUN_ID
    assert resource["service.name"] == "resnet" and resource["host.name"] == "node-17"
    assert resource["accelprof.bottleneck"] == "input-bound"
    assert resource["accelprof.tag.team"] == "vision"
    share = metrics["accelprof.share.input"]
    assert share.unit == "1" and len(share.gauge.data_points) > 50
    assert all(0 <= point.as_double <= 1 for point in share.gauge.data_points)
    times = [point.time_unix_nano for point in share.gauge.data_points]
    assert times == sorted(times) and START_NS < times[0] < times[-1] < START_NS + 200 * 10**9
    assert metrics["accelprof.step_ms.p50"].unit == "ms"
    assert metrics["accelprof.run.samples_per_s"].unit == "{sample}/s"
    assert metrics["accelprof.run.host_peak_bytes"].unit == "By"
    power = [m for name, m in metrics.items() if name.startswith("accelprof.power.")]
    assert power and {m.unit for m in power} == {"W"}


def test_http(home: Path, receive: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x,team=ml")
    to = receive()
    done = accelprof(home, "export", "--otlp", to.url)
    assert done.returncode == 0 and "data points to" in done.stderr
    check(to.requests)
    assert to.headers[0]["path"] == "/v1/metrics"
    assert to.headers[0]["content-type"] == "application/x-protobuf"
    assert (to.headers[0]["authorization"], to.headers[0]["team"]) == ("Bearer x", "ml")


def test_grpc(home: Path) -> None:
    grpc = pytest.importorskip("grpc")
    stubs = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc")
    got: list[Any] = []

    class Servicer(stubs.MetricsServiceServicer):  # type: ignore[name-defined, misc]
        def Export(self, request: Any, context: Any) -> Any:
            got.append(request)
            return service.ExportMetricsServiceResponse()

    server = grpc.server(ThreadPoolExecutor(2))
    stubs.add_MetricsServiceServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        done = accelprof(home, "export", "--otlp", f"grpc://127.0.0.1:{port}")
        assert done.returncode == 0, done.stderr
    finally:
        server.stop(None)
    check(got)
    refused(accelprof(home, "export", "--otlp", f"grpc://127.0.0.1:{port}"))


def test_what_a_receiver_refuses(home: Path, receive: Any) -> None:
    partial = service.ExportMetricsServiceResponse()
    partial.partial_success.rejected_data_points = 3
    partial.partial_success.error_message = "too old"
    answers = {
        "401": lambda _: (401, b""),
        "too old": lambda _: (200, partial.SerializeToString()),
        "not as OTLP": lambda _: (200, b"<html>hello</html>"),
    }
    for words, answer in answers.items():
        assert words in refused(accelprof(home, "export", "--otlp", receive(answer).url))
    gone = receive()
    gone.server.server_close()
    for endpoint in (gone.url, "ftp://x", "localhost:4318", "http://"):
        refused(accelprof(home, "export", "--otlp", endpoint))
