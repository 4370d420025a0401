"""The job's processes as /proc shows them, and why the hooks did not reach one.

`children` files make a look at the tree cost as much as the tree is large, not the host.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..hooks import wire
from .environment import mask_command

LOADED = "loaded"
COMMAND_MAX = 2000  # characters kept of a command line
SETTLE_NS = 2_000_000_000  # an interpreter on a busy machine needs a while to its first hook
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*[a-z]?")
# Single letters that take a value, as in `-W ignore`: the rest of a word like -Bc is one.
_WITH_VALUE = "cmWXQ"


@dataclass
class Seen:
    """One process of the job. Times in UTC ns; `hooks` None: not decided yet."""

    pid: int
    ppid: int
    started_ns: int
    program: str = ""  # the name of its executable
    words: list[str] = field(default_factory=list)
    environ: Mapping[str, str] | None = None  # None: not readable
    ended_ns: int | None = None

    @property
    def key(self) -> str:
        """Like a process of the spool: PID-HEX, with the start time."""
        return f"{self.pid}-{self.started_ns:x}"

    @property
    def command(self) -> str:
        """The command line without its secrets, shortened."""
        return " ".join(mask_command(self.words))[:COMMAND_MAX]


class JobTree:
    """Follows the job's root and all its descendants, also those that outlive their parent."""

    def __init__(self, root: int, *, proc: Path = Path("/proc")) -> None:
        self._root = root
        self._proc = proc
        self._alive: dict[int, Seen] = {}
        self._boot_ns = _boot_ns(proc)
        self._tick_ns = 10**9 // os.sysconf("SC_CLK_TCK")

    def scan(self, now_ns: int) -> list[Seen]:
        """Processes that are new, changed their program, or ended since the last call."""
        changed: list[Seen] = []
        found = dict(self._walk())
        for pid, old in list(self._alive.items()):
            if pid not in found or found[pid][1] != old.started_ns:
                old.ended_ns = now_ns
                changed.append(old)
                del self._alive[pid]
        for pid, (ppid, started_ns) in found.items():
            seen = self._alive.get(pid)
            if seen is None:
                self._alive[pid] = seen = Seen(pid, ppid, started_ns)
                self._read(seen)
                changed.append(seen)
            elif self._words(pid) not in (seen.words, []):  # it called exec
                self._read(seen)
                changed.append(seen)
        return changed

    def pids(self) -> list[int]:
        """Those alive at the last scan."""
        return list(self._alive)

    def alive(self) -> list[Seen]:
        """The same with what is known of them."""
        return list(self._alive.values())

    def _walk(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """(pid, (ppid, start)) of the root, all it started, and of orphans known from before."""
        waiting = [self._root, *self._alive]
        done: set[int] = set()
        while waiting:
            pid = waiting.pop()
            if pid in done:
                continue
            done.add(pid)
            stat = self.stat(pid)
            known = self._alive.get(pid)
            if stat is None or (known and known.started_ns != stat[1]):
                continue
            yield pid, stat
            waiting.extend(self._children(pid))

    def stat(self, pid: int) -> tuple[int, int] | None:
        """(ppid, start in UTC ns); None for a process that is gone or a zombie."""
        try:
            text = (self._proc / str(pid) / "stat").read_text(errors="replace")
            fields = text.rpartition(")")[2].split()
            if fields[0] in "ZX":
                return None
            return int(fields[1]), self._boot_ns + int(fields[19]) * self._tick_ns
        except (OSError, IndexError, ValueError):
            return None

    def _children(self, pid: int) -> list[int]:
        children: list[int] = []
        tasks = self._proc / str(pid) / "task"
        try:
            for task in os.listdir(tasks):  # noqa: PTH208 - a name is all that is needed
                children += map(int, (tasks / task / "children").read_text().split())
        except (OSError, ValueError):
            pass
        return children

    def _words(self, pid: int) -> list[str]:
        return _words(pid, self._proc)

    def _read(self, seen: Seen) -> None:
        _read(seen, self._proc)


def read_process(pid: int, *, proc: Path = Path("/proc")) -> Seen | None:
    """One process with its program, command and environment; None when it is gone."""
    stat = JobTree(pid, proc=proc).stat(pid)
    if stat is None:
        return None
    seen = Seen(pid, *stat)
    _read(seen, proc)
    return seen


def _words(pid: int, proc: Path) -> list[str]:
    try:
        data = (proc / str(pid) / "cmdline").read_bytes()[:65536]
    except OSError:
        return []
    return [os.fsdecode(word) for word in data.rstrip(b"\0").split(b"\0")] if data else []


def _read(seen: Seen, proc: Path) -> None:
    folder = proc / str(seen.pid)
    seen.words = _words(seen.pid, proc)
    try:
        seen.program = (folder / "exe").readlink().name.removesuffix(" (deleted)")
    except OSError:
        seen.program = Path(seen.words[0]).name if seen.words else ""
    try:
        pairs = (folder / "environ").read_bytes()[: 1 << 20].split(b"\0")
        seen.environ = dict(
            (os.fsdecode(key), os.fsdecode(value))
            for key, equals, value in (pair.partition(b"=") for pair in pairs)
            if equals
        )
    except OSError:
        seen.environ = None


def rank_of(seen: Seen) -> int | None:
    """Its rank, out of what its launcher put into the environment; None without a sensible one."""
    text = (seen.environ or {}).get("RANK", "")
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def is_python(seen: Seen) -> bool:
    """Whether its program is a Python interpreter by its name."""
    return bool(_PYTHON.fullmatch(seen.program))


_DEAF = {"I": "isolated mode", "E": "ignores PYTHONPATH", "S": "no site module"}


def why_not_hooked(seen: Seen, *, hooks_wanted: bool = True) -> str:
    """Why a process that is not in the spool was not reached, in words for the report."""
    if not hooks_wanted:
        return "switched off (--no-hooks)"
    if not is_python(seen):
        return f"not Python ({seen.program or 'unknown program'})"
    if deaf := python_flags(seen.words) & _DEAF.keys():
        return ", ".join(f"python -{flag} ({_DEAF[flag]})" for flag in sorted(deaf))
    return _why_python_not_hooked(seen)


def _why_python_not_hooked(seen: Seen) -> str:
    if seen.environ is None:
        return "no hook reported; its environment cannot be read"
    if seen.environ.get(wire.ENV_DISABLE) == "1":
        return f"switched off ({wire.ENV_DISABLE}=1)"
    if wire.ENV_SPOOL not in seen.environ or "PYTHONPATH" not in seen.environ:
        return "its environment was scrubbed (no PYTHONPATH of accelprof)"
    return "no hook reported (it ended too early, or its site module is disabled)"


def python_flags(words: list[str]) -> set[str]:
    """The single-letter options of a Python command line, up to its script, -c or -m."""
    flags: set[str] = set()
    rest = iter(words[1:])
    for word in rest:
        if not word.startswith("-") or word == "-":
            break
        if word.startswith("--"):
            if word == "--check-hash-based-pycs":
                next(rest, None)
            continue
        for place, letter in enumerate(word[1:], start=1):
            flags.add(letter)
            if letter in _WITH_VALUE:
                if letter in "cm":
                    return flags
                if place == len(word) - 1:
                    next(rest, None)
                break
    return flags


def _boot_ns(proc: Path) -> int:
    try:
        for line in (proc / "stat").read_text().splitlines():
            if line.startswith("btime "):
                return int(line.split()[1]) * 10**9
    except (OSError, ValueError, IndexError):
        pass
    return 0
