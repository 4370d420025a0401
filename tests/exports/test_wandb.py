"""`accelprof export --wandb` offline: what its client wrote, read back from its own file."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "comparison"))
import recorded
from running import refused

from accelprof.storage.writer import RunWriter

pytest.importorskip("wandb", reason="needs the extra")
BLOCK = 32768


def records(path: Path) -> Iterator[Any]:
    """A W&B file is a log of LevelDB's form: blocks of records, of which some are in parts."""
    from wandb.proto import wandb_internal_pb2

    data, at, whole = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if BLOCK - at % BLOCK < 7:
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # complete, or its last part
            yield wandb_internal_pb2.Record.FromString(whole)
            whole = b""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("home")
    recorded.record(path, gpu=True)
    return path


def export(home: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "accelprof", "export", "--wandb"], capture_output=True, text=True,
        check=False, stdin=subprocess.DEVNULL, cwd=home,
        env=os.environ | {"ACCELPROF_HOME": str(home), "HOME": str(home)} | environ,
    )  # fmt: skip


def test_the_run_that_the_job_made(home: Path, tmp_path: Path) -> None:
    """Found by its folder; the curves have an axis of their own."""
    at = datetime.fromtimestamp(recorded.recording.START_NS / 1e9 + 5).strftime("%Y%m%d_%H%M%S")
    (tmp_path / "wandb" / f"offline-run-{at}-ab12cd34").mkdir(parents=True)
    (tmp_path / "wandb" / "offline-run-20250101_000000-zz99zz99").mkdir()
    writer = RunWriter(home / "runs" / recorded.RUN_ID / "run.duckdb")
    writer.update_run(cwd=str(tmp_path))
    writer.close()
    done = export(home, WANDB_MODE="offline", WANDB_DIR=str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].endswith("W&B run ab12cd34")
    found = list(records(next((tmp_path / "out").rglob("run-ab12cd34.wandb"))))
    history = [
        {key: json.loads(item.value_json)
         for item in one.history.item for key in ["/".join(item.nested_key) or item.key]}
        for one in found if one.WhichOneof("record_type") == "history"
    ]  # fmt: skip
    steps = [point["accelprof/step"] for point in history]
    assert steps and max(steps) == 600
    assert all(0 <= one["accelprof/share/input"] <= 1 for one in history if
               "accelprof/share/input" in one)  # fmt: skip
    summary = {
        "/".join(item.nested_key) or item.key: item.value_json
        for one in found for item in one.summary.update
    }  # fmt: skip
    assert json.loads(summary["accelprof/bottleneck"]) == "input-bound"
    assert float(summary["accelprof/samples_per_s"]) > 0
    artifacts = [one.artifact for one in found if one.WhichOneof("record_type") == "artifact"]
    names = {entry.path for entry in artifacts[0].manifest.contents}
    assert names == {"report.html", "report.md", "report.json"}


def test_nobody_logged_in(home: Path) -> None:
    assert "WANDB_MODE=offline" in refused(export(home, WANDB_API_KEY="", WANDB_MODE=""))
