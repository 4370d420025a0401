"""Recording a part of the program that this is: `accelprof.profile()` outside of a run.

The same as `accelprof run`, but for who starts it: the folder and the agent of launch.py, with this
process as the job, and the hooks loaded into it by hand, under their private name. Hooks that are
there stay there; the next recording points them to its own spool and tells what they told before.
Processes that the part forks are recorded with hooks, those it spawns from outside.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

from ..storage import library
from .launch import AgentProcess, AgentStarter, RunOptions, make_folder, warn

_HOOKS = Path(__file__).resolve().parent.parent / "hooks"
_PACKAGE = "_accelprof_hooks"
_OF_A_RUN = {"process", "exit", "capture"}  # facts that the next recording makes anew
_told: list[dict[str, Any]] = []  # facts of the hooks in this process, for the next recording


class Recording:
    """One recording of this process, from `start` to `stop`. Neither raises into the program."""

    def __init__(self, name: str | None = None, *, quiet: bool = False) -> None:
        self.folder: Path | None = None
        self._options = RunOptions(command=_command(), name=name, quiet=quiet)
        self._agent: AgentProcess | None = None

    def start(self) -> None:
        """The hooks first, then the agent, which reads what they wrote meanwhile."""
        try:
            self.folder = make_folder(self._options)
            if self.folder is None:
                return
            started_ns = time.time_ns()
            _hook(self.folder / library.SPOOL)
            self._agent = AgentStarter(self.folder, os.getpid(), started_ns).start()
        except Exception as error:
            warn(f"this part is not recorded ({type(error).__name__}: {error})")

    def stop(self, *, failed: bool = False) -> None:
        """Waits for the verdict; the card comes on stderr unless quiet."""
        if self._agent is None or self.folder is None:
            return
        agent, self._agent = self._agent, None
        _rest()
        _flush()
        _remember()
        agent.tell(f"exit {int(failed)} {time.time_ns()}")
        try:
            os.waitpid(agent.pid, 0)
        except KeyboardInterrupt:
            agent.tell("hurry")
            os.waitpid(agent.pid, 0)
        except ChildProcessError:  # the program reaps all its children itself
            pass
        agent.close()


def _command() -> list[str]:
    words = [word for word in sys.argv if word]
    return words if words and words[0] != "-c" else [Path(sys.executable).name]


def _hook(spool: Path) -> None:
    package: Any = sys.modules.get(_PACKAGE)
    if package is None:
        inject = _HOOKS / "inject"
        scope: dict[str, Any] = {"__name__": f"{_PACKAGE}.entry"}
        exec(_code(f"{_PACKAGE}.entry", str(_HOOKS / "entry.py")), scope)
        scope["start"](str(_HOOKS), str(inject), str(spool), _code)
        return
    ring, capture = (sys.modules.get(f"{_PACKAGE}.{name}") for name in ("ring", "capture"))
    package.facts.reset()
    package.facts.spool = str(spool)
    if ring is not None:
        ring.reset()
    if capture is not None:
        capture.wake()
    package.facts.begin()
    for told in _told:
        package.facts.fact(told["k"], **{key: value for key, value in told.items() if key != "k"})


def _code(name: str, path: str) -> CodeType:
    code = SourceFileLoader(name, path).get_code(name)
    assert code is not None
    return code


def _rest() -> None:
    """Ends a capture that runs; there is none until the next recording."""
    capture = sys.modules.get(f"{_PACKAGE}.capture")
    if capture is not None:
        capture.rest()


def _flush() -> None:
    """Has the ring write what it keeps back."""
    ring = sys.modules.get(f"{_PACKAGE}.ring")
    if ring is not None:
        with contextlib.suppress(OSError, ValueError):
            ring.flush()


def _remember() -> None:
    """Hooks tell once what they hooked: torch, loaders, modules. It goes with the spool."""
    package: Any = sys.modules.get(_PACKAGE)
    with contextlib.suppress(OSError, ValueError, AttributeError, KeyError):
        file = Path(package.facts.spool) / f"{package.facts.process}.facts"
        told = [json.loads(line) for line in file.read_text().splitlines()]
        _told[:] = [fact for fact in told if fact["k"] not in _OF_A_RUN]
