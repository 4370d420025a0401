"""A job sees, says and ends the same with accelprof as without: in every pair of circumstances.

Workers, start method, life of the workers, launcher and way to end. `pytest -m slow tests/harmless`
has each value of one with each value of another, without torch and with it; `make test` has each
value once, without.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

JOB = Path(__file__).with_name("account.py")
ACCELPROF = [sys.executable, "-m", "accelprof", "run", "--quiet"]
WORKERS, METHODS, LIVES = ("0", "2"), ("fork", "spawn", "forkserver"), ("0", "1")
ENDS = ("normal", "exception", "exit 3", "os._exit", "SIGTERM", "SIGINT")
LAUNCHERS = {
    "script": [sys.executable, "account.py"],
    "module": [sys.executable, "-m", "account"],
    "shell": ["sh", "-c", f'"{sys.executable}" account.py "$@"; exit $?', "sh"],
    "torchrun": [sys.executable, "-m", "torch.distributed.run", "--standalone",
                 "--nproc-per-node", "1", "account.py"],
}  # fmt: skip
Case = tuple[str, ...]


def pairwise(*factors: tuple[str, ...]) -> list[Case]:
    """Few cases that hold every pair of values of two factors: the best next one each time."""
    columns = list(itertools.combinations(range(len(factors)), 2))
    open_pairs = {
        (i, j, a, b) for i, j in columns for a, b in itertools.product(factors[i], factors[j])
    }
    every, chosen = list(itertools.product(*factors)), []
    while open_pairs:
        best = max(
            every, key=lambda case: sum((i, j, case[i], case[j]) in open_pairs for i, j in columns)
        )
        open_pairs -= {(i, j, best[i], best[j]) for i, j in columns}
        chosen.append(best)
    return chosen


def covering(cases: list[Case]) -> list[Case]:
    """Fewer of them: each value of each factor, in whichever company."""
    open_values = {pair for case in cases for pair in enumerate(case)}
    chosen = []
    while open_values:
        chosen.append(max(cases, key=lambda case: len(open_values & set(enumerate(case)))))
        open_values -= set(enumerate(chosen[-1]))
    return chosen


def same(text: str, launcher: str) -> list[str]:
    """What is said, without what differs from one start to the next."""
    if launcher != "torchrun":
        return re.sub(r"(pid|PID|process)[ =]\d+", "", text).splitlines()
    # Its own log has times, pids, ports and folders in every line
    return [re.sub(r"[\d.:-]+|/tmp/\S+", "", line) for line in text.splitlines()]


def ended(folder: Path, case: Case, ours: bool, *more: str) -> dict[str, Any]:
    """All that a job let be known, with accelprof or without."""
    workers, method, lives, launcher, end = case
    words = [*LAUNCHERS[launcher], workers, method, lives, end, *more]
    environ = os.environ | {"ACCELPROF_HOME": str(folder.parent / "home"), "OMP_NUM_THREADS": "1"}
    capture = [] if more else ["--capture", "off", "--stacks", "off"]
    done = subprocess.run(
        [*(ACCELPROF if ours else []), *(capture if ours else []), *words], cwd=folder,
        env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=280,
        check=False,
    )  # fmt: skip
    account = folder / "account.json"
    assert account.exists(), done.stderr
    told = json.loads(account.read_text())
    account.unlink()
    status = 128 - done.returncode if done.returncode < 0 else done.returncode
    return {
        "status": status, "stdout": same(done.stdout, launcher),
        "stderr": same(done.stderr, launcher), **told,
    }  # fmt: skip


def check(folder: Path, case: Case, *more: str) -> None:
    (folder / JOB.name).write_bytes(JOB.read_bytes())
    plain = ended(folder, case, False, *more)
    ours = ended(folder, case, True, *more)
    assert len(plain["steps"]) == 10
    for key, value in plain.items():
        assert ours[key] == value, key
    assert ours == plain


def name(case: Case) -> str:
    return "-".join(case).replace(" ", "")


PLAIN = pairwise(WORKERS, METHODS, LIVES, ("script", "module", "shell"), ENDS)


@pytest.mark.parametrize("case", covering(PLAIN), ids=name)
def test_without_torch(case: Case, tmp_path: Path) -> None:
    check(tmp_path, case)


@pytest.mark.slow
@pytest.mark.parametrize("case", PLAIN, ids=name)
def test_every_pair_without_torch(case: Case, tmp_path: Path) -> None:
    check(tmp_path, case)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "case", pairwise(WORKERS, METHODS, LIVES, tuple(LAUNCHERS), ENDS), ids=name
)
def test_every_pair_with_torch(case: Case, tmp_path: Path) -> None:
    check(tmp_path, case, "torch")
