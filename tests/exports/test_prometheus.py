"""A real Prometheus scrapes `serve-metrics`; its own checker reads the rules in docs/."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from test_metrics import url  # noqa: F401 - a fixture

DOCS = Path(__file__).parents[2] / "docs" / "metrics"
PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
PATIENCE_S = 40


@pytest.fixture
def prometheus(url: str, tmp_path: Path) -> Iterator[str]:  # noqa: F811
    if PROMETHEUS is None:
        pytest.skip("no prometheus on this machine")
    config = tmp_path / "prometheus.yml"
    target = urllib.parse.urlsplit(url).netloc
    config.write_text(
        "scrape_configs:\n- job_name: accelprof\n  scrape_interval: 1s\n"
        f"  static_configs:\n  - targets: ['{target}']\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    server = subprocess.Popen(
        [PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}",
         f"--web.listen-address={address}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    yield f"http://{address}"
    server.terminate()
    server.wait(20)


def ask(prometheus: str, query: str) -> list[dict[str, Any]]:
    """The answer of Prometheus; waits until the first scrape is in."""
    address = f"{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            if found:
                return found
        except OSError:
            pass  # it has not begun to listen
        time.sleep(0.2)
    raise AssertionError(f"no answer to {query}")


def test_prometheus_takes_it(prometheus: str) -> None:
    steps = ask(prometheus, "accelprof_steps_total")
    assert [s["value"][1] for s in steps] == ["60"]
    assert steps[0]["metric"]["name"] == "resnet"
    assert ask(prometheus, "up")[0]["value"][1] == "1"
    for query in dashboard():  # a host without an accelerator has no series for some
        words = {"query": query.replace("$run", ".*")}
        address = f"{prometheus}/api/v1/query?{urllib.parse.urlencode(words)}"
        with urllib.request.urlopen(address, timeout=5) as answer:
            assert json.load(answer)["status"] == "success", query


def dashboard() -> list[str]:
    """The queries of the dashboard in docs/."""
    board = json.loads((DOCS / "grafana.json").read_text())
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def test_alerts_fire_for_runs_that_are_not_well(tmp_path: Path) -> None:
    if PROMTOOL is None:
        pytest.skip("no promtool on this machine")
    cases = (Path(__file__).parent / "alerts.yml").read_text()
    (tmp_path / "cases.yml").write_text(cases.replace("RULES", str(DOCS / "alerts.yml")))
    done = subprocess.run(
        [PROMTOOL, "test", "rules", str(tmp_path / "cases.yml")], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_sound() -> None:
    if PROMTOOL is None:
        pytest.skip("no promtool on this machine")
    done = subprocess.run(
        [PROMTOOL, "check", "rules", str(DOCS / "alerts.yml")], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_docs_name_only_metrics_that_are_served() -> None:
    served = set(re.findall(r'"([a-z0-9_]+)", "(?:counter|gauge)"|^    \("([a-z_]+)",', _source(),
                            re.MULTILINE))  # fmt: skip
    names = {f"accelprof_{a or b}" for a, b in served}
    text = "\n".join([(DOCS / "alerts.yml").read_text(), *dashboard()])
    used = {name.removesuffix("_total") for name in re.findall(r"accelprof_[a-z_]+", text)}
    assert used <= names, used - names


def _source() -> str:
    return (Path(__file__).parents[2] / "profiler" / "exports" / "openmetrics.py").read_text()
