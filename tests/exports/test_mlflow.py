"""`accelprof export --mlflow` into a real MLflow store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "comparison"))
import recorded
from running import refused

BEGIN_MS = recorded.recording.START_NS // 1_000_000


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("home")
    recorded.record(path, gpu=True)
    return path


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of a store in a folder, which the command gets by its environment, too."""
    library = pytest.importorskip("mlflow", reason="needs the extra")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    return library.MlflowClient(tracking_uri=(tmp_path / "store").as_uri())


def export(home: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "accelprof", "export", "--mlflow"], capture_output=True, text=True,
        check=False, env=os.environ | {"ACCELPROF_HOME": str(home)} | environ,
    )  # fmt: skip


def logged(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stderr.split()[-1]


def test_a_new_run(home: Path, client: Any) -> None:
    run_id = logged(export(home))
    run = client.get_run(run_id)
    assert run.data.tags["accelprof.bottleneck"] == "input-bound"
    assert run.data.tags["accelprof.run"] == recorded.RUN_ID
    assert run.data.metrics["accelprof/share/input"] == pytest.approx(0.66, abs=0.02)
    assert run.info.status == "FINISHED" and run.info.start_time == BEGIN_MS
    points = client.get_metric_history(run_id, "accelprof/over_time/step_ms/p50")
    assert len(points) > 50 and max(point.step for point in points) == 600
    names = {Path(item.path).name for item in client.list_artifacts(run_id, "accelprof")}
    assert names == {"report.html", "report.md", "report.json"}


def test_the_run_that_the_job_made(home: Path, client: Any) -> None:
    """By what MLflow itself notes: its start and the script it came from."""
    ident = client.create_experiment("vision")
    tags = {"mlflow.source.name": "/home/ada/jobs/resnet.py"}
    own = client.create_run(ident, start_time=BEGIN_MS + 5_000, tags=tags).info.run_id
    client.create_run(ident, start_time=BEGIN_MS - 5_000, tags=tags)
    assert logged(export(home)) == own
    assert client.get_run(own).info.status == "RUNNING"  # it is the job's to end
    other = client.create_run(ident).info.run_id
    assert logged(export(home, MLFLOW_RUN_ID=other)) == other


def test_what_cannot_be_done_is_refused(home: Path, client: Any) -> None:
    assert "MLFLOW_TRACKING_URI" in refused(export(home, MLFLOW_TRACKING_URI=""))
    refused(export(home, MLFLOW_RUN_ID="0" * 32))


def test_without_the_extra(home: Path) -> None:
    code = (
        "import sys; sys.modules['mlflow'] = None; "
        "from accelprof.profiler.commands import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "export", "--mlflow"], capture_output=True, text=True,
        check=False,
        env=os.environ | {"ACCELPROF_HOME": str(home), "MLFLOW_TRACKING_URI": "file:///nowhere"},
    )  # fmt: skip
    assert "accelprof[mlflow]" in refused(done)
