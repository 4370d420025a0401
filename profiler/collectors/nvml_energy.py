"""Energy of one device: the driver's counter, or the integral of its power, never a silent 0."""

from __future__ import annotations

from dataclasses import dataclass

from .nvml_driver import LASTING, Missing

LONGEST_INTERVAL_S = 5.0  # power is not assumed to stay for longer
MAX_POWER_W = 3000.0


@dataclass(slots=True)
class Energy:
    """Joules since some fixed moment; only differences mean anything."""

    source: str = "unknown"  # counter | integrated | unknown
    samples: int = 0  # power samples integrated
    _counter: float | None = None
    _offset: float = 0.0
    _counter_s: float = 0.0
    _sum: float = 0.0
    _power: float | None = None
    _power_s: float = 0.0

    def counter(
        self, t_s: float, value: float | Missing, limit_w: float | None
    ) -> float | Missing | None:
        """What the column holds after this reading of the counter; None: integrate power."""
        if isinstance(value, Missing):
            if self.source == "unknown" and value.code in LASTING:
                self.source = "integrated"
            return None if self.source == "integrated" else value
        self.source = "counter"
        before, elapsed_s = self._counter, max(0.0, t_s - self._counter_s)
        self._counter, self._counter_s = value, t_s
        if before is not None:
            # Twice the limit, and a second more for counters that move in steps.
            most = (elapsed_s + 1) * 2 * (limit_w or MAX_POWER_W)
            if not 0 <= value - before <= most:
                self._offset -= value - before  # the sum goes on as if it had not jumped
                return Missing(f"implausible jump of the energy counter by {value - before:.0f} J")
        return value + self._offset

    def power(self, t_s: float, watts: float | None) -> float | None:
        """Adds a power reading to the integral; the sum, None while there is no interval yet."""
        if watts is not None:
            if self._power is not None and 0 < t_s - self._power_s <= LONGEST_INTERVAL_S:
                self._sum += (watts + self._power) / 2 * (t_s - self._power_s)
                self.samples += 1
            self._power_s = t_s
        self._power = watts
        return self._sum if self.samples and watts is not None else None
