"""The facts file of this process: JSON lines that say who it is and what it uses.

Each fact opens, appends and closes: a job's file descriptors are numbered as without us.
Nothing but built-in modules, for the start of a Python that never imports torch.
"""

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST = 2000  # facts a process; the reader stops at 5000

spool = ""
process = ""  # PID-HEX of this process, once it has a file
_left = MOST
_ESCAPES = {code: f"\\u{code:04x}" for code in range(32)} | {34: '\\"', 92: "\\\\"}
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
_WORLD_SIZES = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


def fact(kind: str, **fields: "Any") -> None:
    """Writes a fact; the first one of a process is preceded by who it is. Never raises."""
    global _left
    if _left <= 0:
        return
    _left -= 1
    try:
        if not process:
            _begin()
        _append({"k": kind, **fields})
    except Exception:  # no disk, no folder, another user now: the job does not care
        _left = 0


def begin() -> None:
    """Writes who this process is, if it is not written yet. Never raises."""
    global _left
    try:
        if not process:
            _begin()
    except Exception:
        _left = 0


def reset() -> None:
    """In a forked child: the file is the parent's; its own one comes with its first fact."""
    global process, _left
    process, _left = "", MOST


def text(value: "Any") -> str:
    """JSON of plain values. `json` itself would cost a job more at its start than all the rest."""
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{text(str(k))}: {text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(text, value)) + "]"
    return '"' + str(value).translate(_ESCAPES) + '"'


def _begin() -> None:
    global process
    now = time.time_ns()
    process = f"{os.getpid()}-{now:x}"
    environ = os.environ
    _append(
        {
            "k": "process",
            "pid": os.getpid(),
            "ppid": os.getppid(),
            "start_ns": now,
            "python": "%d.%d.%d" % sys.version_info[:3],
            "executable": sys.executable,
            "argv": list(getattr(sys, "orig_argv", None) or getattr(sys, "argv", [])),
            "flags": repr(sys.flags),
            "rank": _number(environ, _RANKS),
            "local_rank": _number(environ, _LOCAL_RANKS),
            "world_size": _number(environ, _WORLD_SIZES),
        }
    )


def _number(environ: "Any", names: "tuple[str, ...]") -> "int | None":
    for name in names:
        value = environ.get(name, "")
        if value.isdecimal() and len(value) < 10:
            return int(value)
    return None


def _append(fields: "dict[str, Any]") -> None:
    # A lone surrogate of a file name becomes its JSON escape
    line = (text(fields) + "\n").encode("utf-8", "backslashreplace")
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(f"{spool}/{process}.facts", flags, 0o600)
    try:
        os.write(fd, line)
    finally:
        os.close(fd)
