"""AMD GPUs by amdsmi, where ROCm is installed.

Keys and units differ by version, and readings may be the text "N/A". Any exception of the bindings
means one missing reading: their classes are not ours to know.
"""

from __future__ import annotations

import contextlib
import importlib
import io
from collections.abc import Callable, Iterable
from typing import Any

from .amd_gpu import (
    BUSY,
    CLOCK,
    ENERGY,
    GENERATION,
    GENERATIONS,
    MEMORY_BUSY,
    MEMORY_CLOCK,
    POWER,
    POWER_LIMIT,
    TEMPERATURE,
    TOTAL,
    USED,
    WIDTH,
    Ask,
    Gpu,
)  # fmt: skip
from .device_values import number
from .nvml_driver import NOT_SUPPORTED, Missing

MIB = 2**20


def load_amdsmi() -> Any:
    """The initialised bindings, or why there are none: without ROCm their import is a KeyError."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints when it finds no library
            module = importlib.import_module("amdsmi")
        module.amdsmi_init()
    except ModuleNotFoundError:
        return Missing("amdsmi is not installed")
    except Exception as error:
        return Missing(f"amdsmi fails: {words(error)}")
    return module


def find(smi: Any) -> list[Gpu] | Missing:
    """The GPUs in the order of the bus."""
    try:
        handles = smi.amdsmi_get_processor_handles()
    except Exception as error:
        return Missing(f"amdsmi fails: {words(error)}")
    return sorted((_gpu(smi, handle) for handle in handles), key=lambda gpu: gpu.pci)


def close(smi: Any) -> None:
    """Ends the library."""
    with contextlib.suppress(Exception):
        smi.amdsmi_shut_down()


def words(error: BaseException) -> str:
    """An exception in one line."""
    told = getattr(error, "get_error_info", None)
    with contextlib.suppress(Exception):
        if told is not None:
            return " ".join(str(told()).split())[:200]
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _gpu(smi: Any, handle: Any) -> Gpu:
    asic = _get(smi, "amdsmi_get_gpu_asic_info", handle)
    name = str(asic.get("market_name", "")).strip()
    if not name or name == "N/A":
        name = "unknown AMD GPU"
    if name.startswith("Instinct"):
        name = f"AMD {name}"
    static = _get(smi, "amdsmi_get_pcie_info", handle).get("pcie_static", {})
    memory = number(_get(smi, "amdsmi_get_gpu_vram_usage", handle).get("vram_total"))
    details = {
        "source": "amdsmi",
        "architecture": asic.get("target_graphics_version"),
        "link_generation_max": _generation(static.get("max_pcie_speed")),
        "link_width_max": number(static.get("max_pcie_width")),
    }
    return Gpu(
        str(_call(smi, "amdsmi_get_gpu_device_bdf", handle) or ""),
        name,
        _call(smi, "amdsmi_get_gpu_device_uuid", handle),
        int(memory) * MIB if memory else None,
        tuple(_asks(smi, handle)),
        {key: value for key, value in details.items() if value is not None},
    )


def _call(smi: Any, function: str, *arguments: Any) -> Any:
    try:
        return getattr(smi, function)(*arguments)
    except Exception:
        return None


def _get(smi: Any, function: str, handle: Any) -> dict[str, Any]:
    found = _call(smi, function, handle)
    return found if isinstance(found, dict) else {}


def _asks(smi: Any, handle: Any) -> Iterable[Ask]:
    def ask(name: str, metrics: tuple[Any, ...], read: Callable[[], tuple[Any, ...]]) -> Ask:
        def guarded() -> tuple[Any, ...]:
            try:
                return read()
            except Exception as error:
                return (Missing(words(error), NOT_SUPPORTED),) * len(metrics)

        return Ask(name, metrics, guarded)

    yield ask("activity", (BUSY, MEMORY_BUSY), lambda: _activity(smi, handle))
    yield ask("memory", (USED, TOTAL), lambda: _memory(smi, handle))
    yield ask("power", (POWER,), lambda: (_power(smi, handle),))
    yield ask("power limit", (POWER_LIMIT,), lambda: (_power_limit(smi, handle),))
    yield ask("energy", (ENERGY,), lambda: (_energy(smi, handle),))
    yield ask("temperature", (TEMPERATURE,), lambda: (_temperature(smi, handle),))
    yield ask("clock", (CLOCK,), lambda: (_clock(smi, handle, "GFX"),))
    yield ask("memory clock", (MEMORY_CLOCK,), lambda: (_clock(smi, handle, "MEM"),))
    yield ask("link", (GENERATION, WIDTH), lambda: _link(smi, handle))


def _activity(smi: Any, handle: Any) -> tuple[Any, ...]:
    found = smi.amdsmi_get_gpu_activity(handle)
    return found.get("gfx_activity"), found.get("umc_activity")


def _memory(smi: Any, handle: Any) -> tuple[Any, ...]:
    found = smi.amdsmi_get_gpu_vram_usage(handle)
    return tuple(_scaled(found.get(key), MIB) for key in ("vram_used", "vram_total"))


def _power(smi: Any, handle: Any) -> Any:
    """MI300 gives the power of now and MI200 its average; the other one is "N/A" or 0."""
    found = smi.amdsmi_get_power_info(handle)
    keys = ("current_socket_power", "average_socket_power", "socket_power")
    values = [number(found.get(key)) for key in keys]
    known = [value for value in values if value is not None]
    return next((value for value in known if value), 0 if known else None)


def _power_limit(smi: Any, handle: Any) -> Any:
    """In microwatts; old versions in watts."""
    limit = number(smi.amdsmi_get_power_cap_info(handle).get("power_cap"))
    return limit * 1e-6 if limit is not None and limit > 10_000 else limit


def _energy(smi: Any, handle: Any) -> Any:
    """Joules: a counter times its resolution in microjoules."""
    found = smi.amdsmi_get_energy_count(handle)
    counter = number(found.get("energy_accumulator", found.get("power")))
    resolution = number(found.get("counter_resolution"))
    if not counter or not resolution:  # a counter that stands at 0 does not count
        return Missing("no energy counter", NOT_SUPPORTED)
    return counter * resolution * 1e-6


def _temperature(smi: Any, handle: Any) -> Any:
    """At the hottest place, which is what throttles; else at the edge."""
    now = smi.AmdSmiTemperatureMetric.CURRENT
    kinds = smi.AmdSmiTemperatureType
    try:
        hottest = number(smi.amdsmi_get_temp_metric(handle, kinds.JUNCTION, now))
    except Exception:
        hottest = None
    return hottest or smi.amdsmi_get_temp_metric(handle, kinds.EDGE, now)


def _clock(smi: Any, handle: Any, kind: str) -> Any:
    found = smi.amdsmi_get_clock_info(handle, getattr(smi.AmdSmiClkType, kind))
    return found.get("clk", found.get("cur_clk"))


def _link(smi: Any, handle: Any) -> tuple[Any, ...]:
    found = smi.amdsmi_get_pcie_info(handle).get("pcie_metric", {})
    return _generation(found.get("pcie_speed")), found.get("pcie_width")


def _generation(speed: Any) -> int | None:
    """Of a lane's speed in MT/s; old versions in units of 0.1 GT/s."""
    rate = number(speed)
    if not rate:
        return None
    return GENERATIONS.get(rate / 1000) or GENERATIONS.get(rate / 10)


def _scaled(raw: Any, scale: float) -> Any:
    value = number(raw)
    return raw if value is None else value * scale
