"""Numbers with their units, one way each. None becomes UNKNOWN; 0 stays a measured 0."""

from __future__ import annotations

import math
from datetime import datetime

UNKNOWN = "–"


def number(value: float | None) -> str:
    """Three significant digits without an exponent: 0.0412, 5.5, 182, 12,345."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    digits = f"{value:.3g}"
    return f"{value:.6f}".rstrip("0").rstrip(".") if "e" in digits else digits


def count(value: int | None, noun: str = "", plural: str | None = None) -> str:
    """`1 step`, `12,345 steps`."""
    if value is None:
        return UNKNOWN
    if not noun:
        return f"{value:,}"
    return f"{value:,} {noun if value == 1 else plural or noun + 's'}"


def share(value: float | None) -> str:
    """A part of a whole, given as 0..1, in per cent."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    percent = value * 100
    if 0 < percent < 0.1:
        return "under 0.1 %"
    if percent and abs(percent) < 0.95:
        return f"{percent:.1f} %"
    return f"{percent:.0f} %"


def seconds(value: float | None) -> str:
    """A duration: 45 µs, 182 ms, 3.2 s, 2 min 14 s, 1 h 04 min, 3 d 02 h."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value < 0:
        return "-" + seconds(-value)
    if value < 59.95:
        return _short(value)
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 86400} d {whole % 86400 // 3600:02} h"


def _short(value: float) -> str:
    if value == 0:
        return "0 s"
    if value < 0.9995e-3:
        return f"{number(value * 1e6)} µs"
    if value < 0.9995:
        return f"{number(value * 1e3)} ms"
    return f"{number(value)} s"


def milliseconds(value: float | None) -> str:
    """A duration given in ms."""
    return UNKNOWN if value is None else seconds(value / 1e3)


def clock(value: float | None) -> str:
    """Seconds as 0:07, 2:14, 1:04:10: a moment within a run."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    whole = max(0, int(value))
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}:{rest:02}"
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def size(value: float | None) -> str:
    """An amount of memory, given in bytes: 512 MiB, 1.5 GiB."""
    return _scaled(value, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"), 1024)


def bandwidth(value: float | None) -> str:
    """Bytes per second in decimal units, as vendors state them: 12 GB/s."""
    return _scaled(value, ("B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"))


def arithmetic(value: float | None) -> str:
    """Floating-point operations per second: 1.2 TFLOP/s."""
    return _scaled(value, ("FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"))


def energy(value: float | None) -> str:
    """Joules, from a watt-hour on in watt-hours."""
    if value is not None and value >= 3600:
        return _scaled(value / 3600, ("Wh", "kWh", "MWh", "GWh"))
    return UNKNOWN if value is None else f"{number(value)} J"


def power(value: float | None) -> str:
    """Watts."""
    return UNKNOWN if value is None else f"{number(value)} W"


def usd(value: float | None) -> str:
    """US dollars; under a cent with the digits that matter."""
    if value is None:
        return UNKNOWN
    return f"{value:,.2f} USD" if value >= 0.01 or value == 0 else f"{number(value)} USD"


def rate(value: float | None, unit: str) -> str:
    """`176 samples/s`."""
    return UNKNOWN if value is None else f"{number(value)} {unit}/s"


def times(value: float | None) -> str:
    """A factor: 3.4x."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return f"{value:.2f}x" if value < 2 else f"{number(round(value, 1))}x"


def moment(iso: str | None) -> str:
    """An ISO 8601 time in UTC, to the minute."""
    if not iso:
        return UNKNOWN
    try:
        return datetime.fromisoformat(iso).strftime("%Y-%m-%d %H:%M UTC")
    except ValueError:
        return iso


def _scaled(value: float | None, units: tuple[str, ...], base: int = 1000) -> str:
    if value is None or not math.isfinite(value):
        return UNKNOWN
    at = 0
    while abs(value) >= base * 0.9995 and at < len(units) - 1:
        value /= base
        at += 1
    return f"{number(value)} {units[at]}"
