"""No driver, no library, the wrong `pynvml`: one reason each, and who can change it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from stub_nvml.cards import card, write_script

from accelprof.profiler.collectors.nvml_driver import (
    Missing,
    _without_library,
    explain,
    load_bindings,
)

CHILD = """
import sys
from accelprof.profiler.collectors.nvml_sampling import Sampling
sampling = Sampling(folders=sys.argv[1:])
print(sampling.open(), sampling.failure.reason if sampling.failure else None)
print(sampling.sample(0) == [])
sampling.close()
"""


def run(folder: Path, environment: dict[str, str], *folders: str) -> list[str]:
    plain = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    result = subprocess.run(
        [sys.executable, "-c", CHILD, *folders],
        env=plain | environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert result.stderr == ""
    return result.stdout.splitlines()


@pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="there is a driver here")
def test_no_library_is_one_failure(tmp_path: Path) -> None:
    opened, empty = run(tmp_path, {})
    assert opened == "False libnvidia-ml.so.1 not found: no NVIDIA driver here (NVML 12)"
    assert empty == "True"


def test_a_library_without_a_driver(stub_library: Path, tmp_path: Path) -> None:
    script = write_script(tmp_path / "script", [], head=["init 9"])
    environment = {"LD_LIBRARY_PATH": str(stub_library), "STUB_NVML_SCRIPT": str(script)}
    assert "the NVIDIA driver is not loaded (NVML 9)" in run(tmp_path, environment)[0]


def test_a_driver_that_shows_no_device(stub_library: Path, tmp_path: Path) -> None:
    script = write_script(tmp_path / "script", [])
    environment = {"LD_LIBRARY_PATH": str(stub_library), "STUB_NVML_SCRIPT": str(script)}
    assert "shows no device" in run(tmp_path, environment)[0]


def test_the_library_is_found_where_wsl_keeps_it(stub_library: Path, tmp_path: Path) -> None:
    script = write_script(tmp_path / "script", [card("t4")])
    opened, empty = run(
        tmp_path, {"STUB_NVML_SCRIPT": str(script)}, "/nonexistent", str(stub_library)
    )
    assert (opened, empty) == ("True None", "False")


def test_a_pynvml_in_the_jobs_folder_is_not_loaded(stub_library: Path, tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text("raise SystemExit('the wrong pynvml was loaded')")
    script = write_script(tmp_path / "script", [card("t4")])
    environment = {
        "LD_LIBRARY_PATH": str(stub_library),
        "STUB_NVML_SCRIPT": str(script),
        "PYTHONPATH": str(tmp_path),
    }
    assert run(tmp_path, environment)[0] == "True None"


@pytest.mark.parametrize(
    "text",
    [
        "def nvmlInit(): pass",
        "raise ImportError('no')",
        "class NVMLError(Exception): pass\ndef nvmlInit(): pass\n",
    ],
)
def test_a_module_that_is_not_nvidias_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "pynvml.py"
    path.write_text(text)
    # In a child: the bindings are kept for the life of a process.
    code = (
        "import sys; from pathlib import Path\n"
        "from accelprof.profiler.collectors.nvml_driver import load_bindings_from\n"
        "print(load_bindings_from(Path(sys.argv[1])).reason)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert result.stdout.startswith(f"{path} is not NVIDIA's nvidia-ml-py")


def test_the_real_bindings_load_under_a_private_name() -> None:
    bindings = load_bindings()
    assert not isinstance(bindings, Missing)
    assert bindings.nvmlInit
    assert "pynvml" not in {bindings.__name__}
    assert load_bindings() is bindings


class Odd(Exception):
    """What some other module raises."""


def test_any_exception_becomes_a_reason() -> None:
    assert explain(Odd("what is this")).reason == "Odd: what is this"
    assert "too old" in explain(AttributeError("nvmlDeviceGetTemperatureV")).reason


def test_a_container_that_hides_the_driver_is_told_apart(tmp_path: Path) -> None:
    missing = Missing("not found", 12)
    assert _without_library(missing, tmp_path) == missing
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").touch()
    found = _without_library(missing, tmp_path)
    assert "not visible in this container" in found.reason
    assert "--gpus all" in found.who
