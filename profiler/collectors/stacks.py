"""Where the job's Python code spends its time: py-spy, out of process, in short random windows.

py-spy reads the target's memory without stopping it. A window costs about 60 ms of CPU; the pauses
between windows keep the mean at 1 % of a core. The first windows come early: jobs may be short.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from . import Collector, Finished, Gap, Row, Target

RATE_HZ = 50
WINDOW_S = 1
FIRST_S = 1.0  # after the first step
# After the first windows the pauses are short, for jobs of seconds; the cost may then be higher.
EARLY, EARLY_PAUSE_S, EARLY_SHARE = 2, (1.0, 3.0), 0.05
UNSTEPPED_S = 20.0  # a process with torch that makes no step is looked at as well
EARLY_OUTSIDE = 12  # where stacks are all there is: these are what an answer needs
PAUSE_S = (10.0, 20.0)
SHARE = 0.01  # of one core, mean
MOST_ROWS = 200  # a window
MOST_BYTES = 4 << 20
FAILURES = 3  # windows in a row that give nothing, until it is given up
_FRAME = re.compile(r"\S.* \(.*:\d+\)$|\S.* \(.*\)$")
_HOOKS = Path(__file__).resolve().parents[2] / "hooks"
_THREAD = re.compile(r"thread \(\w+\): ?")
_DENIED = re.compile(r"permission denied|operation not permitted", re.IGNORECASE)


class _Window(NamedTuple):
    stacks: Counter[tuple[str, str]]
    cpu_s: float
    error: str  # "" when it gave stacks


class StackCollector(Collector):
    """Rows of table stack. `targets` gives the processes that have torch loaded."""

    name = "stacks"
    default_rate_hz = 2.0  # how often to look whether a window is due
    deadline_s = 30.0

    def __init__(
        self,
        targets: Callable[[], Sequence[Target]],
        *,
        root: Path = Path("/"),
        program: str | None = None,
        seed: int | None = None,
        early: int = EARLY,
    ) -> None:
        self._targets = targets
        self._root = root
        self._program = program or find_program()
        self._random = random.Random(seed)
        self._early = early
        self._due_ns: int | None = None
        self._steps = False  # whether a target stepped yet
        self._seen_ns: dict[int, int] = {}  # when a target came up
        self._failures = 0
        self._turn = 0
        self._running: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def probe(self) -> list[Gap]:
        if self._program is None:
            return [Gap("*", "py-spy is not installed (pip install py-spy)")]
        return []

    def sample(self, t_ns: int) -> list[Row]:
        if self._program is None:
            raise Finished
        targets = self._ready(t_ns)
        steps = any(target.stepped for target in targets)
        if targets and (self._due_ns is None or (steps and not self._steps)):
            self._due_ns = t_ns + round(FIRST_S * 1e9)
            self._turn = 0
        self._steps = self._steps or steps
        if not targets or self._due_ns is None or t_ns < self._due_ns:
            return []
        return self._look(targets, t_ns)

    def interrupt(self) -> None:
        self._stopped = True
        running = self._running
        if running is not None:
            running.kill()

    # -- windows -----------------------------------------------------------------------------

    def _ready(self, t_ns: int) -> list[Target]:
        """Targets that step, or that had long enough to begin."""
        targets = list(self._targets())
        seen = {target.pid: self._seen_ns.get(target.pid, t_ns) for target in targets}
        self._seen_ns = seen
        found = [
            target
            for target in targets
            if target.stepped or t_ns - seen[target.pid] > UNSTEPPED_S * 1e9
        ]
        # Beside processes that step, those with torch that never do are launchers
        steps = any(target.stepped for target in found)
        return [t for t in found if t.stepped or t.worker is not None or not steps]

    def _look(self, targets: Sequence[Target], t_ns: int) -> list[Row]:
        """One training process and, when there are any, one loader worker; taking turns."""
        training = [target for target in targets if target.worker is None]
        workers = [target for target in targets if target.worker is not None]
        rows: list[Row] = []
        spent, gave, error = 0.0, False, ""
        for group in filter(None, (training, workers)):
            target = group[self._turn % len(group)]
            began = time.perf_counter_ns()
            window = self._window(target.pid)
            spent += window.cpu_s
            gave |= bool(window.stacks)
            error = window.error or error
            rows += _rows(t_ns + time.perf_counter_ns() - began, target, window.stacks)
            if self._stopped:
                return rows
        early = self._turn < self._early
        pause = max(
            self._random.uniform(*(EARLY_PAUSE_S if early else PAUSE_S)),
            spent / (EARLY_SHARE if early else SHARE),
        )
        self._turn += 1
        self._due_ns = t_ns + round(pause * 1e9)
        self._failures = 0 if gave else self._failures + 1
        if error and (_DENIED.search(error) or self._failures >= FAILURES):
            self._program = None
            rows.append(("gap", (t_ns, self.name, "*", None, self._reason(error))))
        return rows

    def _window(self, pid: int) -> _Window:
        command = [
            str(self._program), "record", "--nonblocking", "--format", "raw", "--idle",
            "--threads", "--full-filenames", "--rate", str(RATE_HZ), "--duration", str(WINDOW_S),
            "--pid", str(pid), "--output", "/dev/stdout",
        ]  # fmt: skip
        try:
            running = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except OSError as error:
            return _Window(Counter(), 0.0, f"{self._program} cannot be started: {error.strerror}")
        self._running = running
        if self._stopped:
            running.kill()
        before = os.times()
        try:
            out, err = running.communicate(timeout=WINDOW_S + 15)
        except subprocess.TimeoutExpired:
            running.kill()
            out, err = running.communicate()
            err += b"it did not end"
        finally:
            self._running = None
        after = os.times()
        cpu_s = sum(after[2:4]) - sum(before[2:4])
        stacks = parse(out[:MOST_BYTES].decode("utf-8", "replace"))
        return _Window(stacks, cpu_s, "" if stacks else _first_line(err))

    def _reason(self, error: str) -> str:
        if not _DENIED.search(error):
            return f"py-spy gives no stacks: {error}"
        try:
            scope = (self._root / "proc/sys/kernel/yama/ptrace_scope").read_text().strip()
        except OSError:
            scope = "0"
        if scope not in ("", "0"):
            return (
                f"the kernel lets no process read another one (kernel.yama.ptrace_scope={scope}); "
                "an administrator can allow it: sysctl kernel.yama.ptrace_scope=0"
            )
        return (
            "reading the job's stacks is not permitted; it takes the job's own user and, in a "
            "container, CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE)"
        )


def find_program() -> str | None:
    """py-spy beside this interpreter, else on the PATH."""
    beside = Path(sys.executable).parent / "py-spy"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")


def parse(text: str) -> Counter[tuple[str, str]]:
    """(thread, frames): samples, of py-spy's raw format: `thread (1): NAME;frame;frame 49`.

    The hooks' own frames are left out: they stand between the job's.
    """
    found: Counter[tuple[str, str]] = Counter()
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        if not count.isdigit():
            continue
        frames = stack.split(";")
        at = len(frames)
        while at > 1 and _FRAME.match(frames[at - 1]):
            at -= 1
        thread = _THREAD.sub("", ";".join(frames[:at]), count=1)  # a name may have a semicolon
        own = ";".join(frame for frame in frames[at:] if f"({_HOOKS}/" not in frame)
        if own:
            found[thread, own] += int(count)
    return found


def _rows(t_ns: int, target: Target, stacks: Counter[tuple[str, str]]) -> list[Row]:
    return [
        ("stack", (t_ns, target.pid, thread, frames, samples))
        for (thread, frames), samples in stacks.most_common(MOST_ROWS)
    ]


def _first_line(err: bytes) -> str:
    lines = [line for line in err.decode("utf-8", "replace").splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith("py-spy>")] or lines
    return " ".join(told[:1])[:200] or "it gave no stack"
