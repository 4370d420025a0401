"""Builds the stub with gcc. Functions that an older driver lacks are left out by the linker."""

from __future__ import annotations

import atexit
import fnmatch
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = ("script.c", "device.c", "extras.c")
# What a driver of that age does not export.
BEFORE_V3 = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMemoryInfo_v2", "nvmlGpm*")
BEFORE_V2 = (*BEFORE_V3, "nvmlDeviceGetComputeRunningProcesses_v2")
BEFORE_EVENT_REASONS = (
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetTemperatureV",
    "nvmlGpm*",
)


def functions() -> list[str]:
    """The NVML functions that the stub knows."""
    text = "".join((HERE / name).read_text("utf-8") for name in SOURCES)
    found = re.findall(r"^(?:ret_t |const char \*|[A-Z_0-9]+\()(nvml\w+)[(,)]", text, re.MULTILINE)
    return sorted(set(found))


def build(folder: Path, hide: Iterable[str] = ()) -> Path:
    """Builds FOLDER/libnvidia-ml.so.1 without the functions that match `hide`; gives FOLDER."""
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libnvidia-ml.so.1"
    kept = [f for f in functions() if not any(fnmatch.fnmatch(f, pattern) for pattern in hide)]
    exports = folder / "exports.map"
    exports.write_text(f"{{ global: {'; '.join(kept)}; local: *; }};\n", "utf-8")
    partial = folder / f"building-{os.getpid()}.so"
    command = ["gcc", "-shared", "-o", str(partial), *_objects()]
    command += ["-Wl,-soname,libnvidia-ml.so.1", f"-Wl,--version-script={exports}", "-lpthread"]
    subprocess.run(command, check=True)
    partial.rename(library)
    return folder


@cache
def _objects() -> list[str]:
    """The compiled sources; they live as long as this process."""
    folder = Path(tempfile.mkdtemp(prefix="stub-nvml-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    command = ["gcc", "-std=gnu11", "-O2", "-fPIC", "-c"]
    subprocess.run([*command, *(str(HERE / name) for name in SOURCES)], cwd=folder, check=True)
    return [str(folder / Path(name).with_suffix(".o")) for name in SOURCES]


def environment(folder: Path, script: Path) -> dict[str, str]:
    """The environment in which a new process finds the stub of `folder`, told by `script`."""
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(folder),
        "STUB_NVML_SCRIPT": str(script),
    }
