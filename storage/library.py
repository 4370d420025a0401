"""The library of runs on disk: where they live, how they are named, how a user's word finds one.

`$ACCELPROF_HOME/runs/RUN_ID/run.duckdb`, RUN_ID = `YYYYMMDD-HHMMSS-NAME-xxxx` (UTC, sortable).
Standard library only and light: `accelprof run` imports it before the job starts.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

RUN_FILE = "run.duckdb"
SPOOL = "spool"
LOG = "log.txt"
SETTINGS = "run.json"  # what the launcher tells the agent; gone when the run has ended
DAEMON = "daemon"  # folder of the host's recorder, beside `runs`; also a word for `resolve`
NAME_MAX = 40
_STAMP, _SUFFIX = 15, 4  # characters of a run id that tell its time
_RUN_ID = re.compile(r"\d{8}-\d{6}-(?P<name>[A-Za-z0-9._+-]+)-[0-9a-z]{4}")
_SUFFIX_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


class RunNotFound(Exception):
    """No such run. The message names one that is near, else how to list them."""


def home(environ: Mapping[str, str] = os.environ) -> Path:
    """`ACCELPROF_HOME`, else `accelprof` in the XDG data folder. Not created here."""
    if chosen := environ.get("ACCELPROF_HOME"):
        return Path(os.path.abspath(os.path.expanduser(chosen)))  # noqa: PTH100, PTH111
    data = environ.get("XDG_DATA_HOME", "")
    # The XDG specification: a relative path is to be ignored.
    if not os.path.isabs(data):  # noqa: PTH117
        data = os.path.expanduser("~/.local/share")  # noqa: PTH111
    return Path(data) / "accelprof"


def require_utf8(path: Path) -> None:
    """Raises OSError for a path that DuckDB could not open."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise OSError(errno.EILSEQ, "its name is not UTF-8") from None


def clean_name(text: str) -> str:
    """`text` as it may stand in a run id: letters, digits, `._+-`; never empty, never hidden."""
    cleaned = re.sub(r"[^A-Za-z0-9._+-]+", "-", text)[:NAME_MAX].strip("-.")
    return cleaned or "run"


def new_run_id(name: str, *, now_s: float | None = None) -> str:
    """A new id. Of two runs of one second the suffix tells the order: half of it is the time."""
    now_s = time.time() if now_s is None else now_s
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now_s))
    part = int(now_s % 1 * 36**2)
    digits = (part // 36, part % 36, *(byte % 36 for byte in os.urandom(2)))
    suffix = "".join(_SUFFIX_ALPHABET[digit] for digit in digits)
    return f"{stamp}-{clean_name(name)}-{suffix}"


def name_of(run_id: str) -> str | None:
    """The NAME part of a run id; None when it is not one."""
    match = _RUN_ID.fullmatch(run_id)
    return match["name"] if match else None


def list_runs(root: Path | None = None) -> list[Path]:
    """The folders of all runs in `root` (default: the library's), newest first."""
    folder = home() / "runs" if root is None else root
    try:
        names = [n for n in os.listdir(folder) if _RUN_ID.fullmatch(n)]  # noqa: PTH208
    except OSError:
        return []
    names.sort(key=lambda n: (n[:_STAMP], n[-_SUFFIX:], n), reverse=True)
    return [folder / name for name in names if (folder / name).is_dir()]


def resolve(text: str = "last", *, root: Path | None = None) -> Path:
    """The run that `text` means: an id, a unique prefix, a name (its newest), `last`, or a path.

    `daemon` is the recording of the host's always-on recorder.
    A path may be a run's folder, its `.duckdb` file, or a folder of runs (its newest).
    """
    if text == DAEMON and (home() / DAEMON / RUN_FILE).exists():
        return home() / DAEMON
    runs = list_runs(root)
    if text == "last" and runs:
        return runs[0]
    by_id = [run for run in runs if text and run.name.startswith(text)]
    exact = [run for run in by_id if run.name == text]
    if exact or len(by_id) == 1:
        return (exact or by_id)[0]
    if text and (by_name := [run for run in runs if name_of(run.name) == clean_name(text)]):
        return by_name[0]
    if path := _as_path(text):
        return path
    if by_id:
        shown = ", ".join(run.name for run in by_id[:3])
        more = ", ..." if len(by_id) > 3 else ""
        raise RunNotFound(f"{text!r} begins {len(by_id)} runs ({shown}{more}): give more of the id")
    raise RunNotFound(_not_found(text, runs, home() / "runs" if root is None else root))


def _as_path(text: str) -> Path | None:
    """`text` as the path of a run, or None. An existing file is taken whatever is in it."""
    try:
        path = Path(text).absolute()
        if not text or not path.exists():
            return None
    except (OSError, ValueError):  # too long, or a NUL in it
        return None
    if path.is_file() or (path / RUN_FILE).exists():
        return path
    inside = list_runs(path)
    return inside[0] if inside else None


def _not_found(text: str, runs: list[Path], folder: Path) -> str:
    if not runs:
        return f"no run {text!r}: {folder} holds no runs yet; record one with `accelprof run`"
    from difflib import get_close_matches

    words = {run.name: run.name for run in reversed(runs)}
    words |= {name: run.name for run in reversed(runs) if (name := name_of(run.name))}
    near = get_close_matches(text, list(words), n=1)
    hint = f"the nearest is {words[near[0]]}" if near else "`accelprof runs` lists them"
    return f"no run {text!r}; {hint}"
