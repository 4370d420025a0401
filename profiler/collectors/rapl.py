"""Power of the CPU packages, from the energy counters that Linux shows (RAPL, Intel and AMD).

/sys/class/powercap/intel-rapl:N/energy_uj counts microjoules up to max_energy_range_uj and starts
again; a package's parts (intel-rapl:N:M) are inside of it. Since Linux 5.10 only root may read it.
"""

from __future__ import annotations

from pathlib import Path

from . import Gap


class Packages:
    """The counters of all packages."""

    def __init__(self, root: Path) -> None:
        zones = sorted((root / "sys/class/powercap").glob("intel-rapl:*"))
        self._zones = [zone for zone in zones if zone.name.count(":") == 1 and _is_package(zone)]
        self._before: dict[Path, int] = {}

    def gaps(self) -> list[Gap]:
        if not self._zones:
            return [Gap("cpu_power.*", "no RAPL counters here: a virtual machine, or no powercap")]
        try:
            for zone in self._zones:
                int((zone / "energy_uj").read_text())
        except PermissionError:
            reason = "energy_uj is readable by root only; root can chmod o+r it"
            return [Gap("cpu_power_w", reason)]
        except (OSError, ValueError) as error:
            return [Gap("cpu_power_w", f"energy_uj cannot be read: {error}")]
        return []

    def watts(self, seconds: float | None) -> float | None:
        """Mean power of all packages since the last call; None where one of them is unknown."""
        spent = [self._spent(zone) for zone in self._zones]
        if not spent or not seconds or None in spent:
            return None
        return sum(part for part in spent if part is not None) / 1e6 / seconds

    def _spent(self, zone: Path) -> int | None:
        """Microjoules since the last call."""
        try:
            now = int((zone / "energy_uj").read_text())
            before = self._before.get(zone)
            self._before[zone] = now
            if before is None:
                return None
            if now < before:
                now += int((zone / "max_energy_range_uj").read_text())
        except (OSError, ValueError):
            return None
        return now - before if now >= before else None


def _is_package(zone: Path) -> bool:
    """Others ("psys", "dram") hold a package, or are held by one."""
    try:
        return (zone / "name").read_text().startswith("package")
    except OSError:
        return False
