"""This machine's measured ceilings: matmul rate, memory bandwidth, cost of one small operator.

Measured in a child process with the job's own Python, torch and thread count (`probe.py`), never
beside the job, and kept in `$ACCELPROF_HOME/calibration/` by hardware, torch and threads.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from ..errors import UserError

SCHEMA = "accelprof.calibrate/1"
PROBE = Path(__file__).with_name("probe.py")
QUICK_S, FULL_S = 4.0, 20.0  # measuring time; the start of torch comes on top
# Torch takes 3 s to start, and six times as long on a machine with six times as much to do
QUICK_TIMEOUT_S, FULL_TIMEOUT_S = 45.0, 180.0
QUICK_BYTES, FULL_BYTES = 768 << 20, 3 << 30
# An LLC reported by a VM is the whole socket's; a guest rarely gets more than a slice of it
RETRY_S = 3600.0  # so that a machine that is never quiet costs a wait an hour, not one a run
DISTURBED = 0.15  # of the usable CPUs, used by others while measuring
LLC_TRUSTED_BYTES = 256 << 20


class Calibration(msgspec.Struct):
    """Ceilings; rates per second. `vector_flops` are of element-wise functions in cache."""

    flops: dict[str, float]
    bytes_per_s: float
    read_bytes_per_s: float | None = None
    vector_flops: dict[str, float] = msgspec.field(default_factory=dict)
    copy_bytes_per_s: dict[str, float | None] = msgspec.field(default_factory=dict)
    launch_s: float | None = None
    hardware: dict[str, Any] = msgspec.field(default_factory=dict)
    measured_at: str | None = None
    torch: str | None = None
    threads: int | None = None
    quick: bool = True
    disturbed: bool = False  # other processes were busy; measured again after RETRY_S
    notes: list[str] = msgspec.field(default_factory=list)
    schema: str = SCHEMA


def hardware(root: Path = Path("/")) -> dict[str, Any]:
    """What identifies this CPU: model, usable CPUs, last-level cache."""
    model = None
    try:
        text = (root / "proc/cpuinfo").read_text(errors="replace")
        match = re.search(r"^model name\s*:\s*(.+)$", text, re.M)
        model = match.group(1).strip() if match else None
    except OSError:
        pass
    return {
        "cpu": model or platform.processor() or platform.machine(),
        "cpus_usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else
        os.cpu_count(),
        "llc_bytes": _llc_bytes(root),
        "machine": platform.machine(),
    }  # fmt: skip


def _llc_bytes(root: Path) -> int | None:
    sizes = {}
    for folder in (root / "sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            level = int((folder / "level").read_text())
            text = (folder / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
        digits = text.rstrip("KMG")
        if digits.isdigit():
            sizes[level] = int(digits) * unit
    return sizes[max(sizes)] if sizes else None


def _array_bytes(quick: bool, llc: int | None) -> tuple[int, list[str]]:
    """Size of the bandwidth test's arrays together, and what should be known about it."""
    wanted = QUICK_BYTES if quick else FULL_BYTES
    notes = []
    if llc and llc > LLC_TRUSTED_BYTES:
        notes.append(
            f"a last-level cache of {llc >> 20} MiB is reported (shared with other guests on a "
            "virtual machine): the bandwidth may in part be the cache's"
        )
    elif llc:
        wanted = max(wanted, 4 * llc)
    available = _available_bytes()
    if available is not None and wanted > available // 4:
        wanted = max(48 << 20, available // 4)
        notes.append(f"arrays of {wanted >> 20} MiB only, for lack of free memory")
    return wanted, notes


def _available_bytes() -> int | None:
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return None
    match = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.M)
    return int(match.group(1)) << 10 if match else None


def measure(python: str, threads: int | None = None, *, quick: bool = True) -> Calibration:
    """Runs the probe. UserError (one line) when that Python is absent or has no torch."""
    found = hardware()
    size, notes = _array_bytes(quick, found["llc_bytes"])
    before = _Load.now()
    options = {
        "threads": threads,  # None: torch's own choice, as in the job
        "budget_s": QUICK_S if quick else FULL_S,
        "memory_bytes": size,
    }
    answer = _probe(python, options, QUICK_TIMEOUT_S if quick else FULL_TIMEOUT_S)
    others = before.others_since()
    disturbed = others is not None and others > DISTURBED * (found["cpus_usable"] or 1)
    if disturbed:
        notes.append(f"other processes used {others:.1f} cores meanwhile: the figures may be low")
    return Calibration(
        disturbed=disturbed, flops=answer["flops"], bytes_per_s=answer["bytes_per_s"],
        read_bytes_per_s=answer.get("read_bytes_per_s"),
        vector_flops=answer.get("vector_flops") or {},
        copy_bytes_per_s={
            "pinned_to_device": None, "pinned_to_host": None,
            "unpinned_to_device": None, "unpinned_to_host": None,
        },
        launch_s=answer.get("launch_s"), hardware=found | {"array_bytes": size},
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        torch=answer.get("torch"), threads=answer.get("threads"), quick=quick, notes=notes,
    )  # fmt: skip


@dataclass(frozen=True)
class _Load:
    """CPU seconds of the whole machine and of our children, to tell what others used."""

    at_s: float
    busy_s: float | None
    own_s: float

    @classmethod
    def now(cls) -> _Load:
        own = os.times()
        return cls(time.monotonic(), _busy_s(), own.children_user + own.children_system)

    def others_since(self) -> float | None:
        """Cores that others used since then; None when the machine does not tell."""
        now = _Load.now()
        wall = now.at_s - self.at_s
        if self.busy_s is None or now.busy_s is None or wall <= 0:
            return None
        return max(0.0, (now.busy_s - self.busy_s - now.own_s + self.own_s) / wall)


def _busy_s() -> float | None:
    """CPU seconds the machine was not idle; None where more CPUs are counted than are usable."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
        user, nice, system, _, _, irq, softirq, steal = map(int, lines[0].split()[1:9])
    except (OSError, ValueError):
        return None
    if sum(line.startswith("cpu") for line in lines) - 1 != len(os.sched_getaffinity(0)):
        return None
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _probe(python: str, options: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    if os.sep in python:
        python = os.path.abspath(python)  # not resolved: a venv's python is a link  # noqa: PTH100
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ACCELPROF_")}
    environment["ACCELPROF_DISABLE"] = "1"
    try:
        done = subprocess.run(
            [python, str(PROBE), msgspec.json.encode(options).decode()],
            capture_output=True, text=True, timeout=timeout_s, env=environment, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
        raise UserError(f"cannot calibrate with {python}: {error.strerror}") from None
    except OSError as error:
        raise UserError(f"cannot calibrate with {python}: {error}") from None
    except subprocess.TimeoutExpired:
        raise UserError(f"calibration with {python} took longer than {timeout_s:.0f} s") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        why = lines[-1] if lines else f"exit status {done.returncode}"
        if "No module named 'torch'" in why:
            why = "torch is not installed there (name the job's Python with --python)"
        raise UserError(f"cannot calibrate with {python}: {why}")
    try:
        answer = msgspec.json.decode(done.stdout.strip().splitlines()[-1], type=dict[str, Any])
        float(answer["bytes_per_s"]), float(answer["flops"]["fp32"])
    except (msgspec.DecodeError, IndexError, KeyError, TypeError, ValueError):
        raise UserError(f"cannot calibrate with {python}: no figures came back") from None
    return answer


# --- kept results ------------------------------------------------------------------------------


def cache_path(home: Path, python: str, torch: str | None, threads: int | None) -> Path:
    found = hardware()
    key = f"{found['cpu']}|{found['cpus_usable']}|{torch or python}|{threads or 0}"
    return home / "calibration" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def load(path: Path) -> Calibration | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Calibration)
    except (OSError, msgspec.DecodeError):
        return None


def save(calibration: Calibration, path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_bytes(msgspec.json.format(msgspec.json.encode(calibration), indent=1))
    partial.chmod(0o600)
    partial.replace(path)


def usable(path: Path) -> Calibration | None:
    """The kept calibration; one that other processes disturbed is good for RETRY_S."""
    kept = load(path)
    return kept if kept is not None and not (kept.disturbed and _age_s(kept) > RETRY_S) else None


def due(path: Path) -> bool:
    """Whether `ensure_quick` would measure now, and the user wait for it."""
    return usable(path) is None and not _failed_lately(path)


def _age_s(calibration: Calibration) -> float:
    try:
        measured = datetime.fromisoformat(calibration.measured_at or "")
        return (datetime.now(UTC) - measured).total_seconds()
    except (ValueError, TypeError):
        return float("inf")


def better_of(new: Calibration, old: Calibration) -> Calibration:
    """Of two that were disturbed: other processes only ever make a rate look lower."""
    for mine, theirs in ((new.flops, old.flops), (new.vector_flops, old.vector_flops)):
        for name, rate in theirs.items():
            mine[name] = max(rate, mine.get(name, 0.0))
    new.bytes_per_s = max(new.bytes_per_s, old.bytes_per_s)
    if new.read_bytes_per_s and old.read_bytes_per_s:
        new.read_bytes_per_s = max(new.read_bytes_per_s, old.read_bytes_per_s)
    if new.launch_s and old.launch_s:
        new.launch_s = min(new.launch_s, old.launch_s)
    return new


def ensure_quick(
    home: Path, python: str | None, torch: str | None = None, threads: int | None = None
) -> Calibration | None:
    """The kept calibration, else a quick one; None when it cannot be measured.

    Call it after the job: a calibration beside the job would disturb both.
    """
    python = python or sys.executable
    path = cache_path(home, python, torch, threads)
    if not due(path):
        return load(path)
    started = time.monotonic()
    try:
        found = measure(python, threads, quick=True)
    except UserError:
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.with_suffix(".failed").touch()
        return load(path)
    found.notes.append(f"measured in {time.monotonic() - started:.1f} s")
    old = load(path)
    if found.disturbed and old is not None:
        found = better_of(found, old)
    with contextlib.suppress(OSError):  # a full disk only costs the next run a measurement
        save(found, path)
    return found


def _failed_lately(path: Path) -> bool:
    """A measurement that failed is not tried again at every run's end."""
    try:
        return 0 <= time.time() - path.with_suffix(".failed").stat().st_mtime < RETRY_S
    except OSError:
        return False


def to_meta(calibration: Calibration) -> tuple[str, str]:
    """A row of table `meta`: the run file keeps the ceilings that it was judged by."""
    return ("calibration", msgspec.json.encode(calibration).decode())
