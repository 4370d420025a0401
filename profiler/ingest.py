"""From the spool to rows: spans become steps, facts become processes, /proc fills in the rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..hooks import wire
from ..storage.writer import RunWriter
from .collectors import Target
from .environment import mask_command
from .outside import Outside
from .spool import ProcessSpans, SpoolReader
from .step_maker import Built
from .steps import StepBuilder
from .tree import LOADED, SETTLE_NS, JobTree, Seen, why_not_hooked

FACTS_MAX = 1000  # kept a process; a job that makes a loader an epoch tells many
COUNTERS_EVERY_NS = 10_000_000_000
UNHOOKED_MAX = 2000  # processes kept that no hook reached: shell loops start thousands
_KEY = ("process",)


@dataclass
class Hooked:
    """A process that the hooks reached."""

    process: str
    pid: int
    builder: StepBuilder
    facts: list[dict[str, Any]] = field(default_factory=list)
    spans: int = 0
    lost: int = 0
    rank: int | None = None
    worker: int | None = None
    command: str | None = None
    ended_ns: int | None = None
    stored_ns: int = 0  # when its row was last written

    def fact(self, kind: str) -> dict[str, Any]:
        """The first fact of a kind, or an empty one."""
        return next((fact for fact in self.facts if fact.get("k") == kind), {})


@dataclass
class Ingest:
    """Feeds a run's writer. `poll` once a second, `finish` at the end."""

    spool: SpoolReader
    tree: JobTree
    writer: RunWriter
    root: int  # pid of the job
    command: list[str] = field(default_factory=list)  # of the job
    started_ns: int = 0
    hooks_wanted: bool = True
    samples_per_step: int | None = None
    first_steps: Mapping[int, int] = field(default_factory=dict)  # by pid, after a restart
    on_environment: Callable[[dict[str, Any]], None] | None = None
    outside: Outside | None = None  # of a job that was attached to

    def __post_init__(self) -> None:
        self._hooked: dict[str, Hooked] = {}
        self._of_pid: dict[int, Hooked] = {}
        self._undecided: dict[str, Seen] = {}
        self._told: dict[str, Seen] = {}  # unhooked processes that have a row
        self._left_out = 0
        self._kept: dict[str, int] = {}

    @property
    def main(self) -> Hooked | None:
        """The process whose interpreter and torch stand for the run's."""
        with_torch = [h for h in self._hooked.values() if h.fact(wire.FACT_TORCH)]
        training = [h for h in with_torch if h.worker is None]
        return next(iter(training or with_torch or self._hooked.values()), None)

    def targets(self) -> list[Target]:
        """The living processes that work with torch, for stacks. From any thread."""
        return [
            Target(hooked.pid, hooked.worker, hooked.spans > 0)
            for hooked in list(self._hooked.values())
            if hooked.ended_ns is None
            and (hooked.worker is not None or hooked.fact(wire.FACT_TORCH))
        ]

    def poll(self, now_ns: int) -> None:
        """Takes what is new in the spool and in the tree."""
        news = self.spool.poll()
        for one in news:
            self._take(one, now_ns)
        for seen in self.tree.scan(now_ns):
            self._see(seen)
        self._decide(now_ns, final=False)

    def keep_positions(self, file: Path) -> None:
        """Writes down how far the spool is stored, so that a restarted agent goes on from there.

        A file of its own, called after each flush: in the database it would cost more than the
        flush itself (3 ms), for a crash that hardly ever comes.
        """
        positions = dict(self.spool.positions())
        if positions != self._kept:
            self._kept = positions
            partial = file.with_suffix(".part")
            partial.write_text(json.dumps(positions))
            partial.replace(file)

    def finish(self, now_ns: int) -> None:
        """Drains the spool and closes what is open."""
        self.poll(now_ns)
        for hooked in self._hooked.values():
            self._store_steps(hooked.builder.finish())
            hooked.ended_ns = hooked.ended_ns or now_ns
            self._store(hooked)
        self._see_short_job(now_ns)
        for seen in self._undecided.values():
            seen.ended_ns = seen.ended_ns or now_ns
        self._decide(now_ns, final=True)
        if self.outside:  # roles are known better by now
            rows = [self._row(seen, self._why(seen)) for seen in self._told.values()]
            self.writer.replace("process", rows, key=_KEY)
        for note in self.spool.notes:
            self._gap(now_ns, "spool", note)
        if self._left_out:
            self._gap(now_ns, "processes", f"{self._left_out} processes without hooks left out")

    # -- hooked processes --------------------------------------------------------------------

    def _take(self, news: ProcessSpans, now_ns: int) -> None:
        hooked = self._hooked.get(news.process)
        if hooked is None:
            builder = StepBuilder(news.pid, first_step=self.first_steps.get(news.pid, 0))
            hooked = Hooked(news.process, news.pid, builder)
            self._hooked[news.process] = self._of_pid[news.pid] = hooked
            if seen := self._seen_as(news.pid):
                hooked.command = seen.command
        for fact in news.facts:
            self._learn(hooked, fact)
        hooked.spans += len(news.spans)
        hooked.lost += news.lost
        if news.spans:
            self._store_steps(hooked.builder.feed(news.spans))
        for note in news.notes:
            self._gap(now_ns, "spool", note)
        if news.ended:
            hooked.ended_ns = news.spans[-1][1] if news.spans else now_ns
        # Its row with all facts is written when something but the counters changed.
        if news.facts or news.ended or now_ns - hooked.stored_ns > COUNTERS_EVERY_NS:
            hooked.stored_ns = now_ns
            self._store(hooked)

    def _seen_as(self, pid: int) -> Seen | None:
        """The same process as the tree saw it; it needs no row of its own any more."""
        for key, seen in list(self._undecided.items()):
            if seen.pid == pid:
                del self._undecided[key]
                return seen
        for seen in self._told.values():
            if seen.pid == pid and seen.ended_ns is None:
                # It became Python by exec after its row was written.
                self.writer.replace("process", [self._row(seen, LOADED)], key=_KEY)
                return seen
        return None

    def _learn(self, hooked: Hooked, fact: dict[str, Any]) -> None:
        kind = fact.get("k")
        if isinstance(argv := fact.get("argv"), list):
            fact = fact | {"argv": mask_command([str(word) for word in argv])}
        if len(hooked.facts) < FACTS_MAX:
            hooked.facts.append(fact)
        if kind == wire.FACT_GROUP:
            # Not before: a job may start its ranks itself, without a word in the environment
            told = _whole(fact.get("rank"))
            hooked.rank = hooked.builder.rank = hooked.rank if told is None else told
        elif kind == wire.FACT_PROCESS:
            hooked.rank = hooked.builder.rank = _whole(fact.get("rank"))
        elif kind == wire.FACT_OPTIMIZER:
            hooked.builder.optimizer_known = True
        elif kind == wire.FACT_WORKER:
            hooked.worker = _whole(fact.get("worker"))
        if kind in (wire.FACT_PROCESS, wire.FACT_TORCH) and self.on_environment:
            self.on_environment(self.environment())

    def environment(self) -> dict[str, Any]:
        """Versions of the job's own interpreter and torch; None: not known."""
        main = self.main
        process = main.fact(wire.FACT_PROCESS) if main else {}
        torch = main.fact(wire.FACT_TORCH) if main else {}
        return {
            "python": process.get("python"),
            "torch": torch.get("version"),
            "cuda": torch.get("cuda"),
        }

    def _store_steps(self, built: Built) -> None:
        if self.samples_per_step is not None:
            for row in built.steps:
                if row.get("samples") is None:
                    row["samples"] = self.samples_per_step
        if built.steps:
            self.writer.append("step", built.steps)
        if built.worker_batches:
            self.writer.append("worker_batch", built.worker_batches)

    def _store(self, hooked: Hooked) -> None:
        about = hooked.fact(wire.FACT_PROCESS)
        row = {
            "process": hooked.process,
            "pid": hooked.pid,
            "ppid": _whole(about.get("ppid")),
            "role": self._role(hooked),
            "rank": hooked.rank,
            "worker": hooked.worker,
            "started_ns": _whole(about.get("start_ns")),
            "ended_ns": hooked.ended_ns,
            "command": hooked.command,
            "hooks": LOADED,
            "spans": hooked.spans,
            "spans_lost": hooked.lost,
            "facts": hooked.facts,
        }
        self.writer.replace("process", [row], key=_KEY)

    def _role(self, hooked: Hooked) -> str:
        if hooked.worker is not None:
            return "worker"
        if any(hooked.fact(kind) for kind in (wire.FACT_OPTIMIZER, wire.FACT_ROOT)):
            return "rank" if hooked.rank is not None else "main"
        if hooked.fact(wire.FACT_LOADER):
            return "main"
        if hooked.pid == self.root:
            return "main" if len(self._hooked) == 1 else "launcher"
        return "other"

    # -- the others --------------------------------------------------------------------------

    def _see(self, seen: Seen) -> None:
        hooked = self._of_pid.get(seen.pid)
        if hooked is not None:
            hooked.command = seen.command
            if seen.ended_ns:
                hooked.ended_ns = hooked.ended_ns or seen.ended_ns
                self._store(hooked)
        elif seen.key in self._told:
            self.writer.replace("process", [self._row(seen, self._why(seen))], key=_KEY)
        else:
            self._undecided[seen.key] = seen

    def _see_short_job(self, now_ns: int) -> None:
        """A job that was over before the first look at its tree: known by its command alone."""
        known = [*self._undecided.values(), *self._told.values()]
        if self.root in self._of_pid or any(seen.pid == self.root for seen in known):
            return
        started_ns, command = self.started_ns or now_ns, self.command or [""]
        reached = {wire.ENV_SPOOL: "", "PYTHONPATH": ""}  # as it was started
        seen = Seen(self.root, 0, started_ns, Path(command[0]).name, command, reached, now_ns)
        self._undecided[seen.key] = seen

    def _decide(self, now_ns: int, *, final: bool) -> None:
        """Gives a row to each process that had its time to report and did not."""
        for key, seen in list(self._undecided.items()):
            # One that just ended may have files in the spool that the next poll finds.
            ended = seen.ended_ns is not None and seen.ended_ns < now_ns
            if not (final or ended or now_ns - seen.started_ns > SETTLE_NS):
                continue
            del self._undecided[key]
            if len(self._told) >= UNHOOKED_MAX:
                self._left_out += 1
                continue
            self._told[key] = seen
            self.writer.replace("process", [self._row(seen, self._why(seen))], key=_KEY)

    def _why(self, seen: Seen) -> str:
        if self.outside:
            return self.outside.reason(seen)
        return why_not_hooked(seen, hooks_wanted=self.hooks_wanted)

    def _row(self, seen: Seen, hooks: str) -> dict[str, Any]:
        return {
            "process": seen.key,
            "pid": seen.pid,
            "ppid": seen.ppid,
            "role": self._role_of_unhooked(seen),
            "rank": self.outside.rank(seen) if self.outside else None,
            "started_ns": seen.started_ns,
            "ended_ns": seen.ended_ns,
            "command": seen.command,
            "hooks": hooks,
            "spans": 0,
            "spans_lost": 0,
        }

    def _role_of_unhooked(self, seen: Seen) -> str:
        if self.outside:
            return self.outside.role(seen)
        if seen.pid != self.root:
            return "other"
        return "launcher" if self._hooked else "main"

    def _gap(self, t_ns: int, source: str, reason: str) -> None:
        self.writer.append("gap", [(t_ns, source, None, None, reason)])


def _whole(value: Any) -> int | None:
    """An int that fits a column, out of an untrusted fact."""
    good = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62
    return value if good else None
