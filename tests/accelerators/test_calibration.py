"""Calibration in a real child process, its cache, and its refusals in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from accelprof.profiler.accelerators import calibration
from accelprof.profiler.errors import UserError


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    pytest.importorskip("torch")
    home = tmp_path_factory.mktemp("home")
    done = subprocess.run(
        [sys.executable, "-m", "accelprof", "calibrate", "--quick", "--json"],
        capture_output=True, text=True, check=True, env=os.environ | {"ACCELPROF_HOME": str(home)},
    )  # fmt: skip
    return home, json.loads(done.stdout)


def test_keys_and_plausible_figures(measured: tuple[Path, dict[str, object]]) -> None:
    found = calibration.load(next((measured[0] / "calibration").iterdir()))
    assert found is not None
    assert measured[1]["schema"] == "accelprof.calibrate/1"
    for key in ("flops", "bytes_per_s", "copy_bytes_per_s", "launch_s", "hardware", "measured_at"):
        assert key in measured[1]
    assert 1e9 < found.flops["fp32"] < 1e14
    assert 1e8 < found.bytes_per_s < 1e12
    assert found.launch_s is not None and 1e-8 < found.launch_s < 1e-3
    assert set(found.vector_flops) == {"add", "exp", "log", "tanh", "erf", "rand"}


def test_it_is_kept_and_found_again(measured: tuple[Path, dict[str, object]]) -> None:
    home = measured[0]
    found = next(
        c for p in (home / "calibration").iterdir() if (c := calibration.load(p)) is not None
    )
    again = calibration.ensure_quick(home, "/nonexistent/python", found.torch, found.threads)
    assert again == found


def test_it_cannot_be_measured(tmp_path: Path) -> None:
    assert calibration.ensure_quick(tmp_path, "/nonexistent/python") is None


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'ModuleNotFoundError: No module named '\"'torch'\" >&2; exit 1", "not installed"),
        ("echo rubbish", "no figures"),
        ("exit 3", "exit status 3"),
        ("echo '{\"flops\": {}}'", "no figures"),
    ],
)
def test_a_bad_python_is_one_line(script: str, why: str, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    with pytest.raises(UserError, match=why) as refused:
        calibration.measure(str(python))
    assert "\n" not in str(refused.value)


def test_a_large_reported_cache_is_noted() -> None:
    size, notes = calibration._array_bytes(True, 480 << 20)
    assert size <= calibration.QUICK_BYTES and "480 MiB" in notes[0]
    assert calibration._array_bytes(True, 32 << 20)[1] == []


def test_damaged_cache_is_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{")
    assert calibration.load(path) is None


def made(age_s: float, *, disturbed: bool, fp32: float = 1e11) -> calibration.Calibration:
    when = datetime.now(UTC) - timedelta(seconds=age_s)
    return calibration.Calibration(
        flops={"fp32": fp32}, bytes_per_s=1e10, disturbed=disturbed, measured_at=when.isoformat()
    )


def test_a_disturbed_one_is_kept_for_a_while(tmp_path: Path) -> None:
    """A machine that is never quiet costs a wait an hour, not one a run."""
    path = calibration.cache_path(tmp_path, "/nonexistent/python", "2.0", 1)
    calibration.save(made(60, disturbed=True), path)
    assert not calibration.due(path)
    kept = calibration.ensure_quick(tmp_path, "/nonexistent/python", "2.0", 1)
    assert kept is not None and kept.disturbed
    calibration.save(made(calibration.RETRY_S + 60, disturbed=True), path)
    assert calibration.due(path) and calibration.usable(path) is None
    # It cannot be measured again: the old one serves, and the next run does not try at once
    assert calibration.ensure_quick(tmp_path, "/nonexistent/python", "2.0", 1) is not None
    assert not calibration.due(path)
    calibration.save(made(10 * calibration.RETRY_S, disturbed=False), path)
    assert not calibration.due(path) and calibration.usable(path) is not None


def test_of_two_disturbed_ones_the_better_rates_hold() -> None:
    best = calibration.better_of(
        made(0, disturbed=True, fp32=1e11), made(0, disturbed=True, fp32=3e11)
    )
    assert best.flops == {"fp32": 3e11} and best.bytes_per_s == 1e10
