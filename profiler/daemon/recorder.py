"""The recorder's process: samples this host until it is told to end.

    python -P -m accelprof.profiler.daemon.recorder FOLDER

`FOLDER/daemon.json` has its settings; the file, the socket and the log are beside it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from ...storage import library
from ...storage.live import LiveServer
from ...storage.reader import BadRunFile
from ...storage.rollup import EVERY_S
from ...storage.writer import RunWriter
from ..clock import Clock, ClockJump
from ..collectors import Context
from ..collectors.runner import Runner, start
from ..environment import describe
from ..log import Log
from ..tree import LOADED, Seen, rank_of, read_process
from . import SETTINGS
from .jobs import HostJobs, Job

ROUND_S = 1.0
SCAN_EVERY = 2  # rounds between two looks for jobs
TROUBLE_S = 30.0  # that long without storing anything, until it is told again
PROCESS_HZ = 0.5  # one sample in 2 s: jobs of hosts, not of one run
SILENCE_NS = 60_000_000_000  # a shorter pause between two lives of the recorder is no gap
SAME_START_NS = 2_000_000_000  # the kernel's boot time moves a little when the clock is set
HELPER_NS = 10_000_000_000  # compilers and shells of a job that end before this get no row
RUN_ID = "daemon"


class HostClock(Clock):
    """Follows the wall clock when it is set: this recorder lives longer than any run."""

    def check(self) -> ClockJump | None:
        jump = super().check()
        if jump is not None:
            self.offset_ns = self._known_ns
        return jump


class Recorder:
    """One life of the recorder."""

    def __init__(self, folder: Path, settings: dict[str, Any], log: Log) -> None:
        self._folder = folder
        self._settings = settings
        self._log = log
        self._stop = threading.Event()
        self._clock = HostClock()
        self._jobs = HostJobs()
        self._writer = self._open()
        self._runner: Runner | None = None
        self._left: dict[str, dict[str, Any]] = {}  # processes of an earlier life, not seen to end
        self._fresh: dict[str, tuple[Job, Seen]] = {}  # not stored yet: most helpers end soon

    def run(self) -> int:
        """Records until SIGTERM or Ctrl-C."""
        for signo in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signo, lambda *_: self._stop.set())
        self._begin()
        server = LiveServer(self._folder, self._newest)
        self._runner = start(self._context(), self._write, clock=self._clock)
        self._log.write(f"recording, pid {os.getpid()}")
        rounds, rolled_s = 0, time.monotonic()
        while not self._stop.wait(ROUND_S):
            if rounds % SCAN_EVERY == 0:
                with self._log.fence("scan"):
                    self._scan()
            rounds += 1
            self._flush()
            if time.monotonic() - rolled_s > EVERY_S or self._writer.full:
                rolled_s = time.monotonic()
                self._writer.roll_up(self._clock.now_ns(), forget=True)
                self._writer.full = False
        self._runner.close()
        self._end()
        server.close()
        self._writer.close()
        self._log.write("stopped")
        return 0

    # -- the file ----------------------------------------------------------------------------

    def _open(self) -> RunWriter:
        """The recording goes on in its file; one that is damaged is put aside."""
        path = self._folder / library.RUN_FILE
        limit = self._settings["max_disk_bytes"]
        try:
            return RunWriter(path, max_bytes=limit)
        except BadRunFile as error:
            aside = path.with_name(f"damaged-{int(time.time())}.duckdb")
            self._log.write(f"{error}; put aside as {aside.name}, starting anew")
            for old in self._folder.glob("damaged-*.duckdb"):  # one is kept to look at
                old.unlink(missing_ok=True)
            path.with_name(path.name + ".wal").unlink(missing_ok=True)
            path.rename(aside)
            return RunWriter(path, max_bytes=limit)

    def _begin(self) -> None:
        now = self._clock.now_ns()
        with self._writer.reader() as reader:
            ((started,),) = reader.rows("SELECT started_ns FROM run")
            ((last,),) = reader.rows(
                "SELECT max(t_ns) FROM (SELECT t_ns FROM host_sample "
                "UNION ALL SELECT t_ns FROM device_sample)"
            )
        about = describe("", {})
        self._writer.update_run(
            id=RUN_ID, name=RUN_ID, command=["accelprof", "daemon", "start"], cwd="",
            started_ns=started or now, ended_ns=None, state="running", host=about["host"],
            user=about["user"], environment=about["environment"],
            settings={"daemon": True, **self._settings},
        )  # fmt: skip
        self._event(now, "daemon-start", {"pid": os.getpid()})
        if last is not None and now - last > SILENCE_NS:
            silent = f"not recorded from {_iso(last)} to {_iso(now)}: the recorder did not run"
            self._writer.append("gap", [(now, "daemon", None, None, silent)])
        elif last is not None and last - now > SILENCE_NS:
            back = f"the clock was set back: readings up to {_iso(last)} are from before"
            self._writer.append("gap", [(now, "daemon", None, None, back)])
        with self._writer.reader() as reader:
            left = reader.dicts("FROM process WHERE ended_ns IS NULL")
        self._left = {row["process"]: row for row in left}
        self._writer.flush()

    def _close_ended(self, now_ns: int) -> None:
        """Processes of an earlier life that are gone: nobody saw their end."""
        for key, row in list(self._left.items()):
            alive = read_process(row["pid"])
            if alive is not None and abs(alive.started_ns - row["started_ns"]) < SAME_START_NS:
                continue
            del self._left[key]
            self._writer.replace("process", [row | {"ended_ns": now_ns}], key=("process",))
            about = json.loads(row["facts"] or "[]")
            if about and about[0].get("job") == row["process"]:
                self._event(now_ns, "job-end", about[0] | {"seen": False}, row["pid"])

    def _end(self) -> None:
        now = self._clock.now_ns()
        self._event(now, "daemon-stop", {"pid": os.getpid()})
        times = os.times()
        self._writer.update_run(
            ended_ns=now,
            state="finished",
            quality={
                "profiler_cpu_s": round(sum(times[:4]), 3),
                "rows_lost": sum(lost.rows for lost in self._writer.lost.values()),
                "collectors": self._runner.costs() if self._runner else {},
            },
        )

    def _newest(self) -> duckdb.DuckDBPyConnection:
        """For a reader: with all that was sampled until it asks."""
        self._writer.flush()
        return self._writer.cursor()

    def _flush(self) -> None:
        stored = self._writer.flush()
        if not stored:
            self._log.seldom(f"storage: {self._writer.trouble}; going on in memory", TROUBLE_S)

    # -- what is recorded --------------------------------------------------------------------

    def _context(self) -> Context:
        rates = {"nvml": self._settings["rate_hz"], "processes": PROCESS_HZ, "host": 1.0}
        return Context(
            job=os.getpid(), pids=self._jobs.pids, stacks=False, rates_hz=rates,
            dcgm_url=os.environ.get("ACCELPROF_DCGM_URL"),
        )  # fmt: skip

    def _write(self, table: str, rows: Any) -> None:
        if table == "device":  # known from the life before
            self._writer.replace(table, rows, key=("device",))
        else:
            self._writer.append(table, rows)

    def _scan(self) -> None:
        """Each job and process in a fence of its own: one that is odd costs no other."""
        now = self._clock.now_ns()
        fence = partial(self._log.fence, "jobs")
        for what, job, seen in self._jobs.scan(now, fence):
            with fence():
                self._take(now, what, job, seen)
        for key, (job, seen) in list(self._fresh.items()):
            if self._matters(job, seen) or now - seen.started_ns > HELPER_NS:
                del self._fresh[key]
                with fence():
                    self._store(job, seen)
        with fence():
            self._close_ended(now)

    def _take(self, now: int, what: str, job: Job, seen: Seen) -> None:
        self._left.pop(seen.key, None)
        if what != "process":
            self._store(job, seen)  # who reads the event finds the process
            self._event(now, f"job-{what}", job.facts(), seen.pid)
        elif seen.ended_ns is None:
            self._fresh[seen.key] = job, seen
        elif self._fresh.pop(seen.key, None) is None or self._matters(job, seen):
            self._store(job, seen)

    def _matters(self, job: Job, seen: Seen) -> bool:
        return seen.pid == job.root.pid or self._jobs.works(seen.pid)

    def _store(self, job: Job, seen: Seen) -> None:
        self._writer.replace("process", [self._row(job, seen)], key=("process",))

    def _row(self, job: Job, seen: Seen) -> dict[str, Any]:
        rank = rank_of(seen)
        works = self._jobs.works(seen.pid)
        main = "main" if rank is None else "rank"
        return {
            "process": seen.key,
            "pid": seen.pid,
            "ppid": seen.ppid,
            "role": main if works else ("launcher" if seen.pid == job.root.pid else "other"),
            "rank": rank if works else None,
            "started_ns": seen.started_ns,
            "ended_ns": seen.ended_ns,
            "command": seen.command,
            "hooks": LOADED if "accelprof_run" in job.facts()["tags"] else "recorded by the daemon",
            "spans": 0,
            "spans_lost": 0,
            "facts": [job.facts()],
        }

    def _event(self, t_ns: int, kind: str, data: dict[str, Any], pid: int | None = None) -> None:
        self._writer.append("event", [{"t_ns": t_ns, "kind": kind, "pid": pid, "data": data}])


def _iso(t_ns: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(t_ns / 1e9))


def main(words: list[str]) -> int:
    """The recorder's process."""
    os.umask(0o077)
    folder, log = Path(words[0]), Log()
    try:
        settings = json.loads((folder / SETTINGS).read_text())
        return Recorder(folder, settings, log).run()
    except duckdb.Error as error:
        log.write(f"cannot record: {str(error).splitlines()[0]}")
    except Exception:
        with contextlib.suppress(Exception):
            import traceback

            log.write(f"the recorder failed:\n{traceback.format_exc()}")
    return 1


if __name__ == "__main__":
    # Without the interpreter's own teardown: threads inside a driver must not hold it up.
    os._exit(main(sys.argv[1:]))
