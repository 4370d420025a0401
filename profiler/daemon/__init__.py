"""The always-on recorder of a host: every accelerator, and the jobs on them, in one bounded file.

`recorder.py` is its process, `jobs.py` finds the jobs, `control.py` starts, stops and asks it. The
file has the tables of a run, so `report daemon`, `top daemon` and `sql daemon` read it like one.
"""

from __future__ import annotations

from pathlib import Path

from ...storage import library

MAX_BYTES = 2_000_000_000  # of the recording, unless --max-disk says otherwise
DEVICE_HZ = 10.0
SETTINGS = "daemon.json"
UNIT = Path(__file__).with_name("accelprof.service")  # for systemd


def folder() -> Path:
    """Where this user's recorder keeps its file and socket."""
    return library.home() / library.DAEMON
