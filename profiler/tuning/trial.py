"""One trial: an `accelprof run` of the job with other settings, ended as by Ctrl-C.

The run is recorded as any other (launcher, hooks, agent, steps); this watches it through its live
reader and says when it has been long enough.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...hooks import wire
from ...storage import library
from ...storage.reader import BadRunFile, QueryError, RunReader, open_run
from ..diagnosis import sources
from ..errors import UserError
from ..spool import SpoolReader
from .measure import FEWEST, Measured, Step, measured

POLL_S = 0.25
PR_SET_PDEATHSIG = 1
POLITE_S = (15.0, 5.0)  # after SIGINT, after SIGTERM
LAST_WORDS = 400  # characters of the job's output that an error shows
ALWAYS = (0, 2**62)  # ns
STEPS_SQL = (
    "SELECT pid, duration_ns - coalesce(checkpoint_ns, 0) - coalesce(evaluation_ns, 0), samples, "
    "first_of_epoch, coalesce(data_wait_ns, 0) + coalesce(iterator_ns, 0) FROM step "
    "WHERE coalesce(rank, 0) = 0 ORDER BY t_ns"
)


@dataclass(frozen=True)
class Loader:
    """The DataLoader that the job's training iterates, as its first trial saw it."""

    where: str | None  # file:line that makes it
    num_workers: int
    prefetch_factor: int
    pin_memory: bool
    persistent_workers: bool


@dataclass(frozen=True)
class Plan:
    """What a trial is to do. `enough(steps, measured)` tells when, `hopeless` when it is."""

    command: list[str]
    cwd: Path
    folder: Path  # of the trial; gone when it is over
    overrides: dict[str, Any]
    ready: int  # batches that the workers may hold
    workers: int
    enough: Callable[[Measured], bool]
    hopeless: Callable[[Measured], bool]
    first_step_limit_s: float
    step_limit_s: float


@dataclass
class Outcome:
    """How a trial went."""

    measured: Measured | None = None
    ended: str = "steps"  # steps | job-ended | hopeless | stalled | failed
    ended_by: str | None = None  # the signal that it took
    status: int | None = None  # of a job that ended by itself
    words: str = ""  # the last ones of the job
    loader: Loader | None = None
    changed: bool = False  # the overrides were put in
    ranks: int = 1
    wait_share: float = 0.0
    first_step_s: float = 0.0
    wall_s: float = 0.0
    steps_seen: int = 0
    devices: list[str] = field(default_factory=list)
    others_cores: float | None = None  # that other processes used meanwhile; None: not known


FIRST_STEP_LIMIT_S = 600.0


def require(outcome: Outcome, asked_steps: int | None) -> None:
    """Raises UserError when the job as it is gives nothing to compare with."""
    words = f": {outcome.words}" if outcome.words else ""
    if outcome.ended == "failed":
        raise UserError(f"the job failed with status {outcome.status}{words}")
    if outcome.steps_seen == 0 and outcome.ended == "stalled":
        raise UserError(f"the job made no step within {FIRST_STEP_LIMIT_S:.0f} s{words}")
    if outcome.ended == "stalled":
        raise UserError(f"the job stopped making steps after {outcome.steps_seen}{words}")
    if outcome.loader is None and outcome.steps_seen:
        raise UserError("the job uses no DataLoader of torch, so there is nothing to tune")
    wanted = asked_steps or FEWEST
    found = outcome.measured.steps if outcome.measured else 0
    if found < wanted:
        raise UserError(
            f"the job ended after {outcome.steps_seen} steps, {found} of them steady, and "
            f"{wanted} steady ones are needed: let it run longer"
            + (", or ask for fewer with --steps" if asked_steps else "")
        )


def run_trial(plan: Plan) -> Outcome:
    """Runs a trial to its end; the job is gone afterwards, whatever happens."""
    plan.folder.mkdir(parents=True, mode=0o700)
    began = time.monotonic()
    output = plan.folder / "output"
    with output.open("wb") as sink:
        process = _start(plan, sink)
    outcome = Outcome()
    try:
        _watch(plan, process, outcome, began)
    finally:
        outcome.ended_by = _end(process)
        outcome.words = _last_words(output)
        shutil.rmtree(plan.folder, ignore_errors=True)
    outcome.wall_s = time.monotonic() - began
    return outcome


def _start(plan: Plan, sink: Any) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-P", "-m", "accelprof", "run", "--quiet", "--capture", "off"]
    words += ["--stacks", "off", "--name", "trial", "--out", str(plan.folder), "--", *plan.command]
    environ = {k: v for k, v in os.environ.items() if k != wire.ENV_TUNE}
    if plan.overrides:
        environ[wire.ENV_TUNE] = json.dumps(plan.overrides)
    return subprocess.Popen(
        words, cwd=plan.cwd, env=environ, stdin=subprocess.DEVNULL, stdout=sink,
        stderr=subprocess.STDOUT, process_group=0,
        preexec_fn=_dies_with(os.getpid()),  # noqa: PLW1509 - it takes no lock
    )  # fmt: skip


def _dies_with(parent: int) -> Callable[[], None]:
    """SIGTERM for the trial, which passes it on to the job, when this process is killed."""
    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # killed before it could be asked
            os._exit(1)

    return ask


# -- while it runs -----------------------------------------------------------------------------


def _watch(plan: Plan, process: subprocess.Popen[bytes], outcome: Outcome, began: float) -> None:
    reader: RunReader | None = None
    last_step_at = began
    try:
        while True:
            over = process.poll() is not None
            reader = reader or _opened(plan.folder)
            if reader is not None:
                steps = _read(reader, outcome)
                if len(steps) > outcome.steps_seen:
                    last_step_at = time.monotonic()
                    outcome.first_step_s = outcome.first_step_s or last_step_at - began
                    outcome.steps_seen = len(steps)
                outcome.measured = measured(steps, plan.ready, plan.workers)
                if _decided(plan, outcome):
                    _look_at_loaders(reader, outcome)
                    return
            if over:
                outcome.status = process.returncode
                outcome.ended = "failed" if process.returncode else "job-ended"
                return
            limit = plan.step_limit_s if outcome.steps_seen else plan.first_step_limit_s
            if time.monotonic() - last_step_at > limit:
                outcome.ended = "stalled"
                return
            time.sleep(POLL_S)
    finally:
        if reader is not None:
            if outcome.loader is None:
                with contextlib.suppress(BadRunFile, QueryError):
                    _look_at_loaders(reader, outcome)
            reader.close()


def _decided(plan: Plan, outcome: Outcome) -> bool:
    if outcome.measured is None:
        return False
    if plan.enough(outcome.measured):
        return True
    if plan.hopeless(outcome.measured):
        outcome.ended = "hopeless"
        return True
    return False


def _opened(folder: Path) -> RunReader | None:
    """The trial's run, once its recorder has made it."""
    runs = library.list_runs(folder)
    if not runs or not (runs[0] / library.RUN_FILE).exists():
        return None
    try:
        return open_run(runs[0])
    except BadRunFile:
        return None


def _read(reader: RunReader, outcome: Outcome) -> list[Step]:
    """The steps so far of the process that made most of them (rank 0)."""
    try:
        rows = reader.rows(STEPS_SQL)
        ranks = reader.rows("SELECT count(DISTINCT rank) FROM step")[0][0]
    except (BadRunFile, QueryError):
        return []
    if not rows:
        return []
    outcome.ranks = max(1, int(ranks))
    pids = [row[0] for row in rows]
    main = max(set(pids), key=pids.count)
    steps = [
        Step(max(0, ns) / 1e9, samples, bool(first), wait / 1e9)
        for pid, ns, samples, first, wait in rows
        if pid == main
    ]
    total = sum(s.time_s for s in steps[1:])
    outcome.wait_share = min(1.0, sum(s.wait_s for s in steps[1:]) / total) if total else 0.0
    return steps


def _look_at_loaders(reader: RunReader, outcome: Outcome) -> None:
    """Which loader feeds the steps: the one whose waits stand in the ring most often."""
    outcome.devices = [kind for (kind,) in reader.rows("SELECT kind FROM device")]
    outcome.others_cores = _others_cores(reader)
    waits = _waits(reader.folder / library.SPOOL)
    counted: list[tuple[int, Loader]] = []
    for process in sources.processes(reader):
        for fact in process["facts"]:
            if fact.get("k") == wire.FACT_TUNED:
                outcome.changed = True
            elif fact.get("k") == wire.FACT_LOADER:
                counted.append((waits.get((process["process"], fact.get("id")), 0), _loader(fact)))
    if counted:
        outcome.loader = max(counted, key=lambda pair: pair[0])[1]


def _others_cores(reader: RunReader) -> float | None:
    host = sources.host(reader, ALWAYS)
    own = sources.job(reader, ALWAYS, [], None).cpu_cores
    if not host.cpus or host.cpu_share is None or own is None:
        return None
    return max(0.0, host.cpu_share * host.cpus - own)


def _waits(folder: Path) -> dict[tuple[str, Any], int]:
    """How often each loader of each process was waited for, as far as the rings remember."""
    spool = SpoolReader(folder)
    try:
        return Counter(
            (process.process, ident)
            for process in spool.poll()
            for _, _, kind, _, ident, _ in process.spans
            if kind == wire.DATA_WAIT
        )
    finally:
        spool.close()


def _loader(fact: dict[str, Any]) -> Loader:
    workers, prefetch = fact.get("num_workers"), fact.get("prefetch")
    return Loader(
        where=fact["where"] if isinstance(fact.get("where"), str) else None,
        num_workers=workers if isinstance(workers, int) else 0,
        prefetch_factor=prefetch if isinstance(prefetch, int) else 2,
        pin_memory=bool(fact.get("pin_memory")),
        persistent_workers=bool(fact.get("persistent")),
    )


# -- the end -----------------------------------------------------------------------------------


def _end(process: subprocess.Popen[bytes]) -> str | None:
    """Ctrl-C, then SIGTERM, then SIGKILL, to the job's process group; the one that it took."""
    group, used = process.pid, None
    for signo, limit_s in zip((signal.SIGINT, signal.SIGTERM), POLITE_S, strict=True):
        if process.poll() is not None:
            break
        used = signo.name
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signo)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(limit_s)
    if process.poll() is None:
        used = signal.SIGKILL.name
    # Also what the job left behind in its group: workers of a main process that died.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    process.wait()
    return used


def _last_words(output: Path) -> str:
    """The last line that the job wrote, for an error message."""
    try:
        with output.open("rb") as file:
            file.seek(max(0, output.stat().st_size - 8192))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    kept = [x for x in lines if x.strip() and not x.startswith("accelprof:")]
    return kept[-1].strip()[:LAST_WORDS] if kept else ""
