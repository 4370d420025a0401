"""The door to NVML: finds nvidia-ml-py and the driver's library, and puts errors into words.

nvidia-ml-py is loaded by the path of its own distribution, under a name of ours: three packages
on the index install a module called `pynvml`, and a job's folder may hold a fourth.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
# Where the library lies when the loader does not know it: WSL, GKE's device plugin, NixOS.
LIBRARY_FOLDERS = ("/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/run/opengl-driver/lib")
PRIVATE_NAME = "accelprof_nvidia_ml_py"
REQUIRED = ("nvmlInit", "nvmlDeviceGetHandleByIndex", "_nvmlGetFunctionPointer", "NVMLError")

NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, DRIVER_NOT_LOADED = 3, 4, 6, 9
LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, GPU_IS_LOST = 12, 13, 15
# Errors that will not go away by asking again at once.
LASTING = frozenset({NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, 25, 26})
# Errors after which an older function may still answer.
TRY_OLDER = frozenset({NOT_SUPPORTED, FUNCTION_NOT_FOUND, 25, 26})

NOBODY = "nobody: the hardware or its driver does not offer it"
ADMIN = "an administrator of the host"
REASONS: dict[int, tuple[str, str]] = {  # code: (reason, who can change it)
    1: ("NVML is not initialised", "nobody: a fault of accelprof, please report it"),
    2: ("the driver refused the request as invalid", NOBODY),
    3: ("not supported by this device or driver", NOBODY),
    4: ("no permission", f"{ADMIN}: let this user read it (or run with CAP_SYS_ADMIN)"),
    6: ("not found by the driver", ADMIN),
    7: ("the driver asked for a larger buffer than it announced", NOBODY),
    8: ("external power cables are not attached", ADMIN),
    9: ("the NVIDIA driver is not loaded", f"{ADMIN}: load it (nvidia-smi shows its state)"),
    10: ("the driver timed out", ADMIN),
    11: ("the kernel has an interrupt problem with the GPU", ADMIN),
    12: (f"{LIBRARY} not found: no NVIDIA driver here", f"{ADMIN}: install the NVIDIA driver"),
    13: ("the driver is too old for this reading", f"{ADMIN}: a newer NVIDIA driver"),
    14: ("the GPU's infoROM is corrupted", ADMIN),
    15: ("the GPU is lost (fell off the bus)", f"{ADMIN}: reset the GPU or reboot the host"),
    16: ("the GPU needs a reset", f"{ADMIN}: reset the GPU"),
    17: ("the operating system blocked the call", f"{ADMIN}: check the container's device cgroup"),
    18: (
        "driver and library versions differ",
        f"{ADMIN}: reboot the host or reload the driver after its upgrade",
    ),
    19: ("in use by another process", "whoever runs the other profiler (DCGM, Nsight)"),
    20: ("the driver is out of memory", ADMIN),
    21: ("the driver has no data yet", NOBODY),
    23: ("the driver is out of resources", ADMIN),
    25: ("the driver does not know this version of the request", f"{ADMIN}: a newer NVIDIA driver"),
    26: ("no longer offered by this driver", NOBODY),
    27: ("the driver is not ready yet", NOBODY),
    28: ("the GPU was not found", ADMIN),
    29: ("the GPU is in a state that does not allow it", ADMIN),
    999: ("the driver reported an unknown error", ADMIN),
}


@dataclass(frozen=True, slots=True)
class Missing:
    """A reading that could not be had. `code` is NVML's, None for reasons of our own."""

    reason: str
    code: int | None = None
    who: str = NOBODY


def explain(error: BaseException, what: str = "") -> Missing:
    """The reason behind any exception of the bindings, whatever its class."""
    if isinstance(error, AttributeError):
        return Missing("nvidia-ml-py is too old for this", None, "you: upgrade nvidia-ml-py")
    code = getattr(error, "value", None)
    if not isinstance(code, int):
        return Missing(f"{type(error).__name__}: {error}"[:200], None)
    reason, who = REASONS.get(code, (f"NVML error {code}", ADMIN))
    return Missing(f"{reason} (NVML {code}{', ' + what if what else ''})", code, who)


def load_bindings() -> ModuleType | Missing:
    """nvidia-ml-py as a module of its own, or why there is none."""
    if PRIVATE_NAME in sys.modules:
        return sys.modules[PRIVATE_NAME]
    try:
        path = Path(str(importlib.metadata.distribution("nvidia-ml-py").locate_file("pynvml.py")))
    except importlib.metadata.PackageNotFoundError:
        return Missing("the package nvidia-ml-py is missing", None, "you: pip install nvidia-ml-py")
    return load_bindings_from(path)


def load_bindings_from(path: Path) -> ModuleType | Missing:
    """The bindings in that file, if they are NVIDIA's."""
    wrong = Missing(
        f"{path} is not NVIDIA's nvidia-ml-py (several packages install a `pynvml`)",
        None,
        "you: pip uninstall pynvml nvidia-ml-py3; pip install --force-reinstall nvidia-ml-py",
    )
    spec = importlib.util.spec_from_file_location(PRIVATE_NAME, path)
    if spec is None or spec.loader is None:
        return wrong
    module = importlib.util.module_from_spec(spec)
    sys.modules[PRIVATE_NAME] = module  # the bindings look themselves up while they load
    try:
        spec.loader.exec_module(module)
    except Exception:
        del sys.modules[PRIVATE_NAME]
        return wrong
    if all(hasattr(module, name) for name in REQUIRED):
        return module
    del sys.modules[PRIVATE_NAME]
    return wrong


def initialise(bindings: Any, folders: Sequence[str] = LIBRARY_FOLDERS) -> Missing | None:
    """nvmlInit, with the library searched where loaders forget to look; None when it worked."""
    first = _attempt(bindings.nvmlInit)
    if first is None or first.code != LIBRARY_NOT_FOUND:
        return first
    for folder in folders:
        library = os.path.join(folder, LIBRARY)  # noqa: PTH118
        if os.path.exists(library):  # noqa: PTH110
            try:
                # Once in the process, the loader finds it under its plain name too.
                ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
            except OSError:
                continue
            return _attempt(bindings.nvmlInit)
    return _without_library(first)


def _attempt(function: Callable[[], object]) -> Missing | None:
    try:
        function()
    except Exception as error:
        return explain(error)
    return None


def _without_library(missing: Missing, root: Path = Path("/")) -> Missing:
    """Tells a machine without NVIDIA cards from a container that hides the driver."""
    if (root / "proc/driver/nvidia/version").exists() or (root / "dev/nvidiactl").exists():
        return Missing(
            f"the NVIDIA driver is loaded, but {LIBRARY} is not visible in this container",
            missing.code,
            "whoever starts the container: --gpus all, NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        )
    return missing
