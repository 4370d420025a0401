"""Samples beside nvidia-smi, idle and under load, and prints how the readings agree.

Also: the cost of each NVML call, whether slow calls delay samples, GPM's values under a load that
is known to be compute-bound and one that is memory-bound, energy against the integral of power.
In capitals stands what is wrong, and is counted.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelprof.profiler.collectors.nvml_fields import COLUMNS, FIELDS
from accelprof.profiler.collectors.nvml_sampling import Sampling

MIB = 2**20
LOAD_S = 14.0
LOADS = {
    "matmul": "a = torch.randn(8192, 8192, device='cuda', dtype=torch.bfloat16); f = lambda: a @ a",
    "copy": "a = torch.empty(2**29, device='cuda', dtype=torch.float32); b = torch.empty_like(a);"
    " f = lambda: b.copy_(a)",
    "h2d": "a = torch.empty(2**28, dtype=torch.uint8).pin_memory();"
    " b = torch.empty(2**28, device='cuda', dtype=torch.uint8); f = lambda: b.copy_(a)",
}
# What these loads do to a device, whatever it is: column, least, most
EXPECTED = {
    "matmul": (("busy_share", 0.8, 1), ("tensor_share", 0.3, 1), ("sm_share", 0.7, 1)),
    "copy": (("busy_share", 0.8, 1), ("dram_share", 0.5, 1), ("tensor_share", 0, 0.05)),
    "h2d": (("pcie_rx_bytes_per_s", 4e9, 2e11), ("tensor_share", 0, 0.05)),
}


@dataclass(frozen=True)
class Check:
    """One column beside one field of nvidia-smi; `names` newest first."""

    column: str
    names: tuple[str, ...]
    parse: Callable[[str], float]
    absolute: float
    relative: float = 0.0


CHECKS = (
    Check("busy_share", ("utilization.gpu",), lambda t: float(t) / 100, 0.25),
    Check("memory_busy_share", ("utilization.memory",), lambda t: float(t) / 100, 0.25),
    Check("memory_used_bytes", ("memory.used",), lambda t: float(t) * MIB, 64 * MIB, 0.02),
    Check("memory_total_bytes", ("memory.total",), lambda t: float(t) * MIB, 2 * MIB),
    Check("sm_clock_hz", ("clocks.sm",), lambda t: float(t) * 1e6, 60e6, 0.1),
    Check("memory_clock_hz", ("clocks.mem",), lambda t: float(t) * 1e6, 1e6, 0.02),
    Check("power_w", ("power.draw.average", "power.draw"), float, 15, 0.15),
    Check("power_limit_w", ("enforced.power.limit", "power.limit"), float, 1),
    Check("temperature_c", ("temperature.gpu",), float, 3),
    Check(
        "throttle_bits",
        ("clocks_event_reasons.active", "clocks_throttle_reasons.active"),
        lambda t: float(int(t, 16)),
        0,
    ),
    Check("pcie_generation", ("pcie.link.gen.gpucurrent", "pcie.link.gen.current"), float, 0),
    Check("pcie_width", ("pcie.link.width.current",), float, 0),
)


def query(device: int, *names: str) -> list[str]:
    """nvidia-smi's words for these fields; none when it does not know one of them."""
    command = ["nvidia-smi", "-i", str(device), "--query-gpu=" + ",".join(names)]
    command.append("--format=csv,noheader,nounits")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return [] if done.returncode else [word.strip() for word in done.stdout.split(",")]


def parsed(check: Check, word: str) -> float | None:
    """None where nvidia-smi says N/A."""
    try:
        return check.parse(word)
    except ValueError:
        return None


@functools.cache
def known(device: int) -> dict[Check, str]:
    """The newest name of each field that this nvidia-smi answers on this device."""
    found = {}
    for check in CHECKS:
        for name in check.names:
            if [w for w in query(device, name) if parsed(check, w) is not None]:
                found[check] = name
                break
    return found


def smi(device: int) -> dict[str, float | None]:
    """nvidia-smi's value per column, all of one moment."""
    names = known(device)
    words = dict(zip(names, query(device, *names.values()), strict=False))
    return {c.column: parsed(c, words[c]) if c in words else None for c in CHECKS}


class Sampler:
    """The collector's rows per device, and how long samples took."""

    def __init__(self) -> None:
        self.sampling = Sampling()
        if not self.sampling.open(60):
            why = self.sampling.failure
            raise SystemExit(f"NVML does not open: {why.reason if why else 'it hangs'}")
        self.longest_s = 0.0
        self.gaps: dict[tuple[str, int], str] = {}
        self.events: list[tuple[str, Any]] = []

    def run(self, seconds: float, rate: float = 10) -> dict[int, list[dict[str, Any]]]:
        rows: dict[int, list[dict[str, Any]]] = {}
        began = time.monotonic()
        count = 0
        while time.monotonic() - began < seconds:
            entered = time.perf_counter()
            for table, row in self.sampling.sample(time.time_ns()):
                self._take(table, row, rows)
            self.longest_s = max(self.longest_s, time.perf_counter() - entered)
            count += 1
            time.sleep(max(0.0, began + count / rate - time.monotonic()))
        return rows

    def _take(self, table: str, row: Any, rows: dict[int, list[dict[str, Any]]]) -> None:
        if table == "device_sample":
            named = dict(zip(("t_ns", "device", *COLUMNS), row, strict=True))
            rows.setdefault(named["device"], []).append(named)
        elif table == "gap":
            self.gaps[row[2], row[3]] = row[4]
        elif table == "event":
            self.events.append((row[1], json.loads(row[4])))


def mean(rows: list[dict[str, Any]], column: str) -> float | None:
    values = [row[column] for row in rows if row[column] is not None]
    return sum(values) / len(values) if values else None


def compare(sampler: Sampler, title: str) -> int:
    """Prints one table per device; the number of disagreements."""
    failures = 0
    sampler.run(2)
    for card in [c for c in sampler.sampling.cards if c.parent is None]:
        before = smi(card.device)
        rows = sampler.run(1.5)[card.device]
        after = smi(card.device)
        print(f"\n{title}: device {card.device} {card.name}")
        print(f"  {'metric':<20} {'accelprof':>16} {'nvidia-smi':>16} {'then':>16}")
        for check in CHECKS:
            last = rows[-1][check.column]
            a, b = before[check.column], after[check.column]
            verdict = judge(check, rows, a, b)
            failures += verdict.isupper()
            print(f"  {check.column:<20} {show(last):>16} {show(a):>16} {show(b):>16}  {verdict}")
    return failures


def judge(
    check: Check, rows: list[dict[str, Any]], before: float | None, after: float | None
) -> str:
    """Between the two readings of nvidia-smi, or near one of them, at any of our samples."""
    ours = [float(row[check.column]) for row in rows if row[check.column] is not None]
    theirs = [value for value in (before, after) if value is not None]
    if not theirs:
        return "both missing" if not ours else "not known to nvidia-smi"
    if not ours:
        return "OURS IS MISSING"
    low, high = min(theirs), max(theirs)
    room = max(check.absolute, check.relative * high)
    return "ok" if any(low - room <= value <= high + room for value in ours) else "DIFFERS"


def show(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def call_costs(sampler: Sampler) -> None:
    """The time of each call: what is worth asking at each sample, and what blocks."""
    nvml, card = sampler.sampling.opened.nvml, sampler.sampling.cards[0]  # type: ignore[union-attr]
    print(f"\ncost of a call, device {card.device}, 20 each")
    for field in FIELDS:
        for function, reader in field.readers:
            times = []
            for _ in range(20):
                began = time.perf_counter()
                try:
                    reader(nvml, card.handle)
                except Exception as error:
                    print(f"  {field.name:<18} {function}: {error}")
                    break
                times.append(time.perf_counter() - began)
            if times:
                times.sort()
                text = f"median {times[10] * 1e6:8.0f} us, longest {times[-1] * 1e6:8.0f} us"
                print(f"  {field.name:<18} {text}  {function}")


def gpm_interval(sampler: Sampler) -> None:
    """How close two GPM samples may be."""
    card = sampler.sampling.cards[0]
    if card.gpm is None:
        print("\nno GPM on this device")
        return
    print("\nGPM by interval between samples (sm, occupancy, tensor, dram in per cent)")
    gpm = card.gpm.gpm
    for interval in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0):
        gpm.read()
        time.sleep(interval)
        began = time.perf_counter()
        values = gpm.read()
        cost_us = (time.perf_counter() - began) * 1e6
        said = values if not isinstance(values, dict) else [values[i] for i in (2, 3, 5, 10)]
        print(f"  {interval:5.2f} s: {said}  ({cost_us:.0f} us)")


def load(kind: str) -> subprocess.Popen[str] | None:
    """A child that keeps the first GPU busy; None without torch."""
    code = (
        "import time, torch; torch.cuda.init(); " + LOADS[kind] + "\n"
        "f(); torch.cuda.synchronize(); print('go', flush=True)\n"
        f"end = time.monotonic() + {LOAD_S}\n"
        "while time.monotonic() < end:\n"
        "    [f() for _ in range(10)]; torch.cuda.synchronize()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdout is not None
    if child.stdout.readline().strip() != "go":
        child.wait()
        return None
    return child


def under_load(sampler: Sampler, kind: str) -> int:
    """Averages under a load; for the matmul also nvidia-smi, GPM's interval and energy."""
    child = load(kind)
    if child is None:
        print(f"\n{kind}: no torch with CUDA here, not measured")
        return 0
    failures = 0
    try:
        sampler.run(2)
        rows = sampler.run(4)[0]
        print(f"\nload {kind}: means over 4 s of device 0")
        for column in COLUMNS:
            print(f"  {column:<20} {show(mean(rows, column)):>16}")
        for column, low, high in EXPECTED[kind]:
            value = mean(rows, column)
            good = value is not None and low <= value <= high
            failures += not good
            verdict = "ok" if good else "DIFFERS"
            print(f"  {column} {show(value)}, must be {low:g} to {high:g}: {verdict}")
        power = mean(rows, "power_w")
        known = [r for r in rows if r["energy_j"] is not None]
        if power and len(known) > 1:
            seconds = (known[-1]["t_ns"] - known[0]["t_ns"]) / 1e9
            by_counter = (known[-1]["energy_j"] - known[0]["energy_j"]) / seconds
            agrees = 0.8 < by_counter / power < 1.25
            failures += not agrees
            verdict = "ok" if agrees else "DIFFERS"
            print(f"  energy counter {by_counter:.1f} W, power {power:.1f} W  {verdict}")
        if kind == "matmul":
            failures += compare(sampler, "under load")
            gpm_interval(sampler)
            dmon()
    finally:
        child.kill()
        child.wait()
    return failures


def dmon() -> None:
    """nvidia-smi's own GPM and PCIe view, to read beside ours."""
    for words in (("-s", "ut"), ("--gpm-metrics", "2,3,5,10,20,21", "-s", "u")):
        command = ["nvidia-smi", "dmon", "-i", "0", "-c", "2", *words]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
        print(f"\n{' '.join(command)}\n{result.stdout}{result.stderr}")


def main() -> int:
    folder = Path(sys.argv[1])
    sampler = Sampler()
    call_costs(sampler)
    failures = compare(sampler, "idle")
    for kind in LOADS:
        failures += under_load(sampler, kind)
    print(f"\nlongest sample {sampler.longest_s * 1e3:.1f} ms (slow calls must not show here)")
    print("gaps:", *(f"  device {d} {c}: {why}" for (c, d), why in sampler.gaps.items()), sep="\n")
    (folder / "events.json").write_text(json.dumps(sampler.events, indent=1), "utf-8")
    print("events:", sorted({kind for kind, _ in sampler.events}))
    sampler.sampling.close()
    print(f"\n{failures} readings differ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
