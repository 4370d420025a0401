"""The agent: one process beside the job that records it, and tells the verdict at its end.

    python -P -m accelprof.profiler.agent RUN_FOLDER JOB_PID STARTED_NS [--again|--attached]

The launcher starts it in the job's process group with all signals blocked and these descriptors:
3 control (lines from the launcher: `exit CODE NS`, `stopped`, `continued`, `hurry`; its end of file
means that the launcher is gone), 4 witness (we tell which signals reached the group), 5 the
terminal's stderr. 2 is the run's log. `accelprof attach` becomes the agent itself (attach.py): then
there is no launcher, and 3 and 4 are closed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..storage import library
from ..storage.live import LiveServer
from ..storage.rollup import EVERY_S
from ..storage.writer import RunWriter
from .clock import Clock
from .control import Attachment, Control, Ending, bear_witness
from .launch import CONTROL_FD, RUN_SETTINGS, SPOOL_POSITIONS, TERMINAL_FD, WITNESS_FD
from .log import Log

if TYPE_CHECKING:
    from .collectors.runner import Runner
    from .ingest import Hooked, Ingest

FLUSH_EVERY_S = 1.0


@dataclass
class Agent:
    """The recording of one run."""

    folder: Path
    job: int
    started_ns: int
    settings: dict[str, Any]
    again: bool = False
    attached: bool = False
    log: Log = field(default_factory=Log)

    def __post_init__(self) -> None:
        self.finishing = False
        self.hurried = False
        self.calibrating = False
        self.control: Control | Attachment
        self.writer: RunWriter
        self.clock = Clock()
        self._server: LiveServer | None = None
        self._runner: Runner | None = None
        self._ingest: Ingest | None = None
        self._environment: dict[str, Any] = {}
        self._wrote_trouble = False
        self._rolled_s = time.monotonic()

    def run(self) -> int:
        """Records until the job is gone, then finishes; the agent's exit status."""
        if self.attached:
            self.control = Attachment(self.job, self.hurry)
        else:
            self.control = Control(CONTROL_FD, self.job, self.hurry)
        self._open()
        self._start()
        due = time.monotonic()
        while self.control.ending is None:
            self.tick()
            due = max(due + FLUSH_EVERY_S, time.monotonic())
            self.control.changed.wait(due - time.monotonic())
        return self.finish(self.control.ending)

    @property
    def main(self) -> Hooked | None:
        """The hooked process whose interpreter and torch stand for the run's; None without."""
        return self._ingest.main if self._ingest else None

    # -- start -------------------------------------------------------------------------------

    def _open(self) -> None:
        limit = self.settings.get("max_disk_bytes")
        self.writer = RunWriter(self.folder / library.RUN_FILE, max_bytes=limit)
        self.writer.update_run(
            id=self.settings["id"],
            name=self.settings["name"],
            command=self.settings["command"],
            cwd=self.settings["cwd"],
            started_ns=self.started_ns,
            state="running",
            tags=self.settings["tags"],
            note=self.settings["note"],
            settings={key: self.settings[key] for key in _KEPT_SETTINGS}
            | ({"attached_pid": self.job} if self.attached else {}),
        )
        if self.again:
            self.writer.append("gap", [(time.time_ns(), "agent", None, None, _RESTARTED)])
        self.writer.flush()
        with self.log.fence("live readers"):
            self._server = LiveServer(self.folder, self.writer.cursor)

    def _start(self) -> None:
        from .recording import start_collectors, start_ingest

        with self.log.fence("spool"):
            self._ingest = start_ingest(self)
        with self.log.fence("collectors"):
            self._runner = start_collectors(self, self._ingest)
        # git may take a while; nothing waits for it
        threading.Thread(target=self._describe, name="environment", daemon=True).start()

    def _describe(self) -> None:
        from .environment import describe

        with self.log.fence("environment"):
            about = describe(self.settings["cwd"])
            self._environment = about["environment"] | {
                key: value for key, value in self._environment.items() if value is not None
            }
            self.writer.update_run(**(about | {"environment": self._environment}))

    def learn_environment(self, facts: dict[str, Any]) -> None:
        """What the hooks tell of the job's own interpreter."""
        self._environment = self._environment | {k: v for k, v in facts.items() if v is not None}
        self.writer.update_run(environment=self._environment)

    # -- each second -------------------------------------------------------------------------

    def tick(self) -> None:
        """One round: take what is new, store it, look after the launcher."""
        with self.log.fence("spool"):
            if self._ingest:
                self._ingest.poll(self.clock.now_ns())
        with self.log.fence("storage"):
            if self.flush() and self._ingest:
                self._ingest.keep_positions(self.folder / SPOOL_POSITIONS)
        with self.log.fence("storage"):
            self._roll_up()
        if self.control.stopped:
            with self.log.fence("launcher"):
                self._wake_launcher()

    def _roll_up(self) -> None:
        """Of long runs: what is old gets coarser."""
        now_s = time.monotonic()
        if now_s - self._rolled_s > EVERY_S:
            self._rolled_s = now_s
            self.writer.roll_up(self.clock.now_ns())

    def flush(self) -> bool:
        """Stores what is buffered; trouble goes into the log once until it is over."""
        stored = self.writer.flush()
        if stored:
            if self._wrote_trouble:
                self.log.write("storage works again")
            self._wrote_trouble = False
        elif not self._wrote_trouble:
            self._wrote_trouble = True
            self.log.write(f"storage: {self.writer.trouble}; going on in memory")
        return stored

    def _wake_launcher(self) -> None:
        """The launcher stopped with the job. Continued alone, the job cannot wake it; we do."""
        launcher = self.settings["launcher"]
        if _state(launcher) == "T" and _state(self.job) not in ("T", "t"):
            os.kill(launcher, signal.SIGCONT)

    # -- the end -----------------------------------------------------------------------------

    def finish(self, ending: Ending) -> int:
        """Everything after the job's end. What fails is left out; the status says so."""
        from . import finish

        self.finishing = True
        self.log.write(f"the job ended: {ending.state}, status {ending.status}")
        with self.log.fence("collectors"):
            if self._runner:
                self._runner.close()
        with self.log.fence("spool"):
            if self._ingest:
                self._ingest.finish(ending.ended_ns)
        self.writer.update_run(
            ended_ns=ending.ended_ns,
            exit_status=ending.status,
            state=ending.state,
            quality=self.quality(),
        )
        self.writer.append(
            "event",
            [{"t_ns": ending.ended_ns, "kind": "end", "pid": self.job, "data": _end(ending)}],
        )
        self.flush()
        with self.log.fence("finish"):
            finish.judge(self)
        return self.close()

    def quality(self) -> dict[str, Any]:
        """What the recording itself cost: CPU seconds with children, peak RSS in bytes."""
        times = os.times()
        return {
            "profiler_cpu_s": round(sum(times[:4]), 3),
            "profiler_rss_bytes": _peak_rss_bytes(),
            "rows_lost": sum(lost.rows for lost in self.writer.lost.values()),
            "agent_restarted": self.again,
            "collectors": self._runner.costs() if self._runner else {},
        }

    def close(self) -> int:
        """Lets go of everything; 1 when rows could not be stored."""
        import shutil

        from .finish import say

        if self._server:
            self._server.close()
        self.writer.close()
        trouble = self.writer.trouble
        if trouble:
            self.log.write(f"storage: {trouble}; the last rows are lost")
            say(f"the recording in {self.folder} is incomplete: {trouble}")
        else:
            for name in (RUN_SETTINGS, SPOOL_POSITIONS):
                (self.folder / name).unlink(missing_ok=True)
            shutil.rmtree(self.folder / library.SPOOL, ignore_errors=True)
        return 0

    def hurry(self) -> None:
        """Ctrl-C after the job's end: keep what there is and go. Called on the control thread."""
        if self.calibrating:  # leave that out, the verdict itself takes no time
            kill_children()
            return
        self.hurried = True
        if not self.finishing:  # the job has just ended, or this is not meant for now
            return
        self.log.write("interrupted while finishing")
        kill_children()
        self.close()
        os._exit(0)


_RESTARTED = "the recorder was killed and started again; samples of the time between are missing"
_KEPT_SETTINGS = ("hooks", "rate_hz", "capture", "stacks", "samples_per_step", "max_disk_bytes")
_ATTACHED, _AGAIN = "--attached", "--again"


def kill_children() -> None:
    """Ends what we started ourselves, a calibration for instance."""
    with contextlib.suppress(OSError, ValueError):
        for task in Path("/proc/self/task").iterdir():
            for pid in (task / "children").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)


def _end(ending: Ending) -> dict[str, Any]:
    code = ending.code
    return {"state": ending.state, "signal": -code if code is not None and code < 0 else None}


def _state(pid: int) -> str | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        return text.rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None


def _peak_rss_bytes() -> int | None:
    # Not ru_maxrss, which counts what the launcher had before the exec.
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None


def main(words: list[str]) -> int:
    """The agent's process."""
    os.umask(0o077)
    _close_strangers()
    log = Log()
    try:
        attached = _ATTACHED in words
        if not attached:
            bear_witness(WITNESS_FD)
        folder, job, started_ns = Path(words[0]), int(words[1]), int(words[2])
        settings = json.loads((folder / RUN_SETTINGS).read_text(errors="surrogateescape"))
        agent = Agent(folder, job, started_ns, settings, _AGAIN in words, attached, log)
        return agent.run()
    except Exception:
        log.write(f"the agent failed:\n{traceback.format_exc()}")
        return 1


def _close_strangers() -> None:
    """Descriptors that the launcher inherited: a pipe kept open here would never end for others."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - closing while iterating is not safe
        if int(name) > TERMINAL_FD:
            with contextlib.suppress(OSError):
                os.close(int(name))


if __name__ == "__main__":
    # Without the interpreter's own teardown: threads inside a driver must not hold it up.
    os._exit(main(sys.argv[1:]))
