"""What can be told of a job's processes without hooks: who works with a framework, and as what.

For `accelprof attach`, where the job runs already, and `run --no-hooks`. A process works with torch
or JAX when it has mapped their libraries. A loader worker is told by its stack, which stands in the
loader's worker loop; until one was seen, by its being a copy of a process that trains.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from .collectors import Target
from .tree import JobTree, Seen, is_python, rank_of

SWITCHED_OFF = "switched off (--no-hooks)"
ATTACHED = (
    "attached while running: steps, phases, batch sizes and operators are not seen without hooks; "
    "`accelprof run` sees them"
)
_LIBRARIES = (b"libtorch", b"jaxlib", b"libtensorflow")
_WORKER_LOOP = "torch/utils/data/_utils/worker.py"
_SPAWNED = ("spawn_main", "forkserver")
_LOOK_AGAIN_S = 5.0  # a job may import its framework long after it was attached to
_MAPS_MAX = 8 << 20


class Outside:
    """Roles and stack targets of processes that no hook reports of. Safe from any thread."""

    def __init__(
        self,
        root: int,
        tree: JobTree,
        *,
        reason: str = ATTACHED,
        proc: Path = Path("/proc"),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._tree = tree
        self._reason = reason
        self._proc = proc
        self._monotonic = monotonic
        self._framework: dict[str, bool] = {}  # by process key
        self._looked_s: dict[str, float] = {}
        self._by_stack: dict[int, bool] = {}  # pid: stands in a loader's worker loop
        self._copies: set[str] = set()  # process keys: forked by a process that works, no exec

    def targets(self) -> list[Target]:
        """The living processes whose stacks are worth looking at."""
        alive = self._tree.alive()
        working = [seen for seen in alive if self._works(seen)]
        if not working:  # no framework (yet): the job itself, when it is Python
            working = [seen for seen in alive if seen.pid == self._root and is_python(seen)]
        found, workers = [], 0
        for seen in working:
            is_worker = self._is_worker(seen, working)
            found.append(Target(seen.pid, workers if is_worker else None, stepped=True))
            workers += is_worker
        return found

    def learn(self, rows: Iterable[Sequence[Any]]) -> None:
        """Takes rows of table stack: (t_ns, pid, thread, frames, samples)."""
        for _, pid, _, frames, _ in rows:
            if _WORKER_LOOP in frames:
                self._by_stack[pid] = True
            else:
                self._by_stack.setdefault(pid, False)

    def role(self, seen: Seen) -> str:
        """As in table `process`."""
        if not self._works(seen):
            return ("main" if is_python(seen) else "launcher") if self._is_root(seen) else "other"
        if self._is_worker(seen, [other for other in self._tree.alive() if self._works(other)]):
            return "worker"
        return "rank" if self.rank(seen) is not None else "main"

    def rank(self, seen: Seen) -> int | None:
        """Of a launcher's environment."""
        return rank_of(seen) if self._works(seen) else None

    def reason(self, seen: Seen) -> str:
        """Why the hooks did not reach it."""
        return (
            self._reason if is_python(seen) else f"not Python ({seen.program or 'unknown program'})"
        )

    def _is_root(self, seen: Seen) -> bool:
        return seen.pid == self._root

    def _works(self, seen: Seen) -> bool:
        """Has a framework's libraries mapped; asked again now and then while it has not."""
        key, now = seen.key, self._monotonic()
        if self._framework.get(key) or now - self._looked_s.get(key, -_LOOK_AGAIN_S) < (
            _LOOK_AGAIN_S
        ):
            return self._framework.get(key, False)
        self._looked_s[key] = now
        try:
            with open(self._proc / str(seen.pid) / "maps", "rb") as file:
                maps = file.read(_MAPS_MAX)
        except OSError:
            maps = b""
        self._framework[key] = any(library in maps for library in _LIBRARIES)
        return self._framework[key]

    def _is_worker(self, seen: Seen, working: Sequence[Seen]) -> bool:
        if (told := self._by_stack.get(seen.pid)) is not None:
            return told
        parent = next((other for other in working if other.pid == seen.ppid), None)
        if parent is not None and parent.words == seen.words:
            self._copies.add(seen.key)
        return seen.key in self._copies or any(
            mark in word for word in seen.words for mark in _SPAWNED
        )
