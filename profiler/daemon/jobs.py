"""Finds the jobs of a host: processes that work with an accelerator or a framework, as trees.

A process works when it has mapped a framework, a driver library or a device; that is looked up in
/proc/PID/maps a few times in its youth and then once a minute. Its job is the outermost ancestor in
its process group, or beyond that a launcher: `torchrun` and its ranks are one job.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from ...hooks import wire
from ..launch import name_from
from ..tree import JobTree, Seen, read_process

_WORKS = re.compile(
    rb"libtorch|jaxlib|libtensorflow|libcuda\.so|libamdhip64|libtpu|libze_loader"
    rb"|/dev/nvidia|/dev/accel|/dev/kfd|/dev/dri/render|/dev/vfio/\d"
)
_LAUNCHERS = re.compile(
    r"\b(torchrun|torch\.distributed|accelerate|deepspeed|mpirun|mpiexec|srun)\b"
)
_YOUNG_S = (0.0, 2.0, 5.0, 10.0, 20.0, 40.0)  # ages at which a process is looked at
_OLD_S = 60.0
_MAPS_MAX = 8 << 20
# What names a job better than its command, from its environment
_IDENTITY = {
    "slurm_job": "SLURM_JOB_ID", "slurm_name": "SLURM_JOB_NAME", "torchrun": "TORCHELASTIC_RUN_ID",
    "kubernetes_pod": "POD_NAME", "ray_job": "RAY_JOB_ID", "mlflow_run": "MLFLOW_RUN_ID",
}  # fmt: skip


class Job:
    """One tree of processes; `key` is its root's, like a process's in the tables."""

    def __init__(self, root: Seen, working: Seen, user: str, proc: Path) -> None:
        self.root = root
        self.user = user
        self.tree = JobTree(root.pid, proc=proc)
        self.name = _name(root, working)

    @property
    def key(self) -> str:
        return self.root.key

    def facts(self) -> dict[str, Any]:
        """What is said of it: in `event` and with each of its processes."""
        return {
            "k": "job", "job": self.key, "name": self.name, "user": self.user,
            "command": self.root.command, "tags": identity(self.root.environ or {}),
        }  # fmt: skip


class HostJobs:
    """The jobs that run now. `scan` now and then; `pids` from any thread."""

    def __init__(self, *, proc: Path = Path("/proc"), own: int | None = None) -> None:
        self._proc = proc
        self._own = os.getpid() if own is None else own
        self._jobs: dict[str, Job] = {}
        self._looks: dict[int, tuple[int, int, float, bool]] = {}  # pid: start, looks, next, works
        self._walker = JobTree(0, proc=proc)
        # A job may lie within the tree of another one: a process is its nearest root's
        self._owners: dict[str, str] = {}  # process: job
        self._owner_of_pid: dict[int, str] = {}

    @property
    def jobs(self) -> list[Job]:
        return list(self._jobs.values())

    def pids(self) -> list[int]:
        """All processes of all jobs."""
        return list({pid for job in self.jobs for pid in job.tree.pids()})

    def scan(
        self, now_ns: int, fence: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> Iterator[tuple[str, Job, Seen]]:
        """What changed: ("start" | "end", job, its root) and ("process", job, seen).

        Inside a `fence` each: what fails with one job costs no other.
        """
        for pid in self._new_workers(now_ns):
            with fence():
                working = read_process(pid, proc=self._proc)
                root = self._root_of(working)
                if working and root and root.key not in self._jobs:
                    user = self._user(root.pid)
                    job = self._jobs[root.key] = Job(root, working, user, self._proc)
                    yield "start", job, root
        ended: list[Seen] = []
        for key, job in list(self._jobs.items()):
            with fence():
                for seen in job.tree.scan(now_ns):
                    if self._owner(seen, key) == key:
                        ended += [seen] if seen.ended_ns is not None else []
                        yield "process", job, seen
                if not job.tree.pids():
                    del self._jobs[key]
                    job.root.ended_ns = now_ns
                    yield "end", job, job.root
        for seen in ended:
            self._owners.pop(seen.key, None)
            self._owner_of_pid.pop(seen.pid, None)

    def _owner(self, seen: Seen, key: str) -> str:
        """The job of a process that was met in the tree of the job `key`."""
        known = seen.key if seen.key in self._jobs else self._owners.get(seen.key)
        owner = known or self._owner_of_pid.get(seen.ppid, key)
        self._owners[seen.key] = self._owner_of_pid[seen.pid] = owner
        return owner

    def works(self, pid: int) -> bool:
        """As it was last looked at."""
        look = self._looks.get(pid)
        return bool(look and look[3])

    def _new_workers(self, now_ns: int) -> list[int]:
        """Processes that work and belong to no known job yet."""
        known = set(self.pids())
        found: list[int] = []
        alive = [int(name) for name in os.listdir(self._proc) if name.isdigit()]  # noqa: PTH208
        for pid in list(self._looks):
            if pid not in alive:
                del self._looks[pid]
        for pid in alive:
            if pid in (1, self._own):
                continue
            if self._look(pid, now_ns / 1e9) and pid not in known:
                found.append(pid)
        return found

    def _look(self, pid: int, now_s: float) -> bool:
        stat = self._walker.stat(pid)
        if stat is None:
            return False
        started, looks, due_s, works = self._looks.get(pid, (stat[1], 0, 0.0, False))
        if started != stat[1]:  # a pid used again
            started, looks, due_s, works = stat[1], 0, 0.0, False
        if works or now_s < due_s:
            return works
        works = self._maps_say_so(pid)
        age_s = now_s - started / 1e9
        later = [s for s in _YOUNG_S if s > age_s]
        due_s = now_s + (later[0] - age_s if later else _OLD_S)
        self._looks[pid] = (started, looks + 1, due_s, works)
        return works

    def _maps_say_so(self, pid: int) -> bool:
        try:
            with open(self._proc / str(pid) / "maps", "rb") as file:
                return _WORKS.search(file.read(_MAPS_MAX)) is not None
        except OSError:
            return False

    def _root_of(self, seen: Seen | None) -> Seen | None:
        """The outermost ancestor that belongs to the job."""
        while seen is not None and seen.ppid > 1 and seen.ppid != self._own:
            parent = read_process(seen.ppid, proc=self._proc)
            if parent is None or not _is_part_of_a_job(parent, seen):
                break
            seen = parent
        return seen

    def _user(self, pid: int) -> str:
        try:
            uid = (self._proc / str(pid)).stat().st_uid
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return str(uid)
        except OSError:
            return ""


def _is_part_of_a_job(parent: Seen, child: Seen) -> bool:
    """Of the same process group (a shell with job control gives each job one), or a launcher."""
    words = " ".join(parent.words[:4])
    if "accelprof" in words:  # our own launcher
        return False
    try:
        return os.getpgid(parent.pid) == os.getpgid(child.pid) or bool(_LAUNCHERS.search(words))
    except OSError:
        return False


def _name(root: Seen, working: Seen) -> str:
    """Slurm's name, else the script's or module's, else the program's."""
    given = (root.environ or {}).get("SLURM_JOB_NAME")
    names = [name_from(seen.words) for seen in (working, root) if seen.words]
    plain = {Path(seen.words[0]).name for seen in (working, root) if seen.words}
    telling = [name for name in names if name not in plain]
    return given or next(iter(telling + names), "") or root.program or "job"


def identity(environ: Mapping[str, str]) -> dict[str, str]:
    """The job's names in schedulers, and the run that records it through hooks."""
    found = {key: environ[name][:200] for key, name in _IDENTITY.items() if environ.get(name)}
    if spool := environ.get(wire.ENV_SPOOL):
        found["accelprof_run"] = Path(spool).parent.name
    return found
