"""Starting, stopping and asking the host's recorder. Standard library only: `run` asks, too."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...storage import library
from ...storage.live import SOCKET
from ..errors import UserError
from ..launch import agent_environment, log_bug
from . import DEVICE_HZ, MAX_BYTES, SETTINGS, folder

START_LIMIT_S, STOP_LIMIT_S = 20.0, 10.0
STATE = "pid"  # file: pid and start of the running recorder, in clock ticks since boot


@dataclass(frozen=True)
class Running:
    """A recorder that is alive."""

    pid: int
    since_ns: int
    folder: Path


def running(where: Path | None = None) -> Running | None:
    """This user's recorder; None when there is none, also after it was killed."""
    where = where or folder()
    try:
        pid, ticks, since_ns = map(int, (where / STATE).read_text().split())
    except (OSError, ValueError):
        return None
    return Running(pid, since_ns, where) if _start_ticks(pid) == ticks else None


def start(*, max_disk_bytes: int = MAX_BYTES, device_hz: float = DEVICE_HZ) -> Running:
    """Starts the recorder in the background. Raises UserError."""
    with _prepared(max_disk_bytes, device_hz) as where:
        log = os.open(where / library.LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        process = subprocess.Popen(
            _command(where), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
            cwd="/", env=agent_environment(), start_new_session=True,
        )  # fmt: skip
        os.close(log)
        _note(where, process.pid)
        deadline = time.monotonic() + START_LIMIT_S
        while not _answers(where):
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                (where / STATE).unlink(missing_ok=True)
                raise UserError(f"the recorder did not start: {_last_line(where / library.LOG)}")
            time.sleep(0.05)
    found = running(where)
    assert found is not None
    return found


def run_here(*, max_disk_bytes: int = MAX_BYTES, device_hz: float = DEVICE_HZ) -> None:
    """Becomes the recorder: for systemd and containers, which watch over it themselves."""
    with _prepared(max_disk_bytes, device_hz) as where:
        _note(where, os.getpid())
    os.execve(sys.executable, _command(where), agent_environment())


def stop() -> Running | None:
    """Ends the recorder and waits for it; which one it was."""
    found = running()
    if found is None:
        return None
    with contextlib.suppress(ProcessLookupError):
        os.kill(found.pid, signal.SIGTERM)
    if not _gone(lambda: running(found.folder) is None, STOP_LIMIT_S):
        os.kill(found.pid, signal.SIGKILL)
        _gone(lambda: running(found.folder) is None, STOP_LIMIT_S)
    (found.folder / STATE).unlink(missing_ok=True)
    return found


def status() -> dict[str, Any]:
    """The object that `status --json` prints."""
    where = folder()
    found = running(where)
    settings = _settings(where)
    return {
        "schema": "accelprof.daemon/1",
        "running": found is not None,
        "pid": found.pid if found else None,
        "since": _iso(found.since_ns) if found else None,
        "devices": _devices(where),
        "disk_bytes": sum(_size(path) for path in _files(where)),
        "disk_limit_bytes": settings.get("max_disk_bytes"),
        "rate_hz": settings.get("rate_hz"),
        "folder": str(where),
    }


def rate_hz(where: Path) -> float | None:
    """How often the recorder in this folder samples devices."""
    return _settings(where).get("rate_hz")


@contextlib.contextmanager
def _prepared(max_disk_bytes: int, device_hz: float) -> Iterator[Path]:
    """The folder with the settings in it, while nobody else starts a recorder there."""
    where = folder()
    try:
        where.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(where / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise UserError(f"cannot record in {where}: {error.strerror}") from None
    import fcntl

    try:
        with contextlib.suppress(OSError):  # a file system without locks: the state file decides
            fcntl.flock(lock, fcntl.LOCK_EX)
        if found := running(where):
            raise UserError(f"the recorder runs already (pid {found.pid})")
        text = json.dumps({"max_disk_bytes": max_disk_bytes, "rate_hz": device_hz})
        _write(where / SETTINGS, text)
        yield where
    finally:
        os.close(lock)


def _command(where: Path) -> list[str]:
    return [sys.executable, "-P", "-m", "accelprof.profiler.daemon.recorder", str(where)]


def _note(where: Path, pid: int) -> None:
    _write(where / STATE, f"{pid} {_start_ticks(pid)} {time.time_ns()}")


def _write(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".part")
    partial.write_text(text)
    partial.replace(path)


def _answers(where: Path) -> bool:
    from ...storage.live import LiveClient

    try:
        LiveClient(where, timeout_s=1.0).close()
    except OSError:
        return False
    return True


def _gone(true: Callable[[], bool], limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _start_ticks(pid: int) -> int | None:
    """When a living process started; None for one that is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return None if fields[0] in "ZX" else int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def _settings(where: Path) -> dict[str, Any]:
    try:
        found = json.loads((where / SETTINGS).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _devices(where: Path) -> list[dict[str, Any]]:
    """The devices that it has seen so far; none when there is no recording."""
    from ...storage.reader import BadRunFile, QueryError, open_run

    if not (where / library.RUN_FILE).exists():
        return []
    try:
        with open_run(where) as reader:
            return reader.dicts(
                "SELECT device AS index, name, kind, catalogue FROM device ORDER BY device"
            )
    except (BadRunFile, QueryError) as error:
        log_bug(error)
        return []


def _files(where: Path) -> list[Path]:
    return [path for path in where.glob("*") if path.name != SOCKET]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _last_line(path: Path) -> str:
    try:
        lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    return lines[-1].partition(" ")[2] if lines else f"see {path}"


def _iso(t_ns: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(t_ns / 1e9, UTC).isoformat(timespec="seconds")
