"""`accelprof serve-metrics` over HTTP, while a run is recorded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "comparison"))
import recorded
from running import refused

openmetrics = "application/openmetrics-text; version=1.0.0"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A live run beside a finished one, and the server."""
    pytest.importorskip("prometheus_client", reason="needs the extra")
    recorded.record(tmp_path, run_id="20260111-101640-done-cd34", name="done", steps=30)
    with recorded.live(tmp_path):
        server = subprocess.Popen(
            [sys.executable, "-m", "accelprof", "serve-metrics", "--port", "0"],
            env=os.environ | {"ACCELPROF_HOME": str(tmp_path)}, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert server.stderr is not None
        line = server.stderr.readline()
        assert line.startswith("accelprof: http://127.0.0.1:"), line
        yield line.removeprefix("accelprof: ").strip()
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 130
        assert server.stderr.read() == ""


def test_a_scrape(url: str) -> None:
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    request = urllib.request.Request(url, headers={"Accept": openmetrics})
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert "openmetrics" in answer.headers["Content-Type"]
        found = {f.name: f for f in parser.text_string_to_metric_families(answer.read().decode())}
    assert found["accelprof_steps"].samples[0].value == 60
    assert found["accelprof_samples"].samples[0].value == 60 * 32
    phases = {s.labels["phase"]: s.value for s in found["accelprof_phase_seconds"].samples}
    assert phases["data_wait"] > phases["forward"] > 0
    assert phases["data_wait"] < found["accelprof_step_seconds"].samples[0].value
    runs = {s.labels["run"] for family in found.values() for s in family.samples}
    assert runs == {recorded.RUN_ID}  # the finished run is not served
    assert "accelprof_device_busy_ratio" not in found  # no reading is no sample


def test_without_the_extra(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['prometheus_client'] = None; "
        "from accelprof.profiler.commands import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "serve-metrics"], capture_output=True, text=True, check=False
    )
    assert "accelprof[metrics]" in refused(done)
