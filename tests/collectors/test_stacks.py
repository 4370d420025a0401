"""Stacks: the schedule on a program that stands for py-spy, and py-spy itself on real Python."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

import accelprof
from accelprof.profiler.collectors import Finished, Target
from accelprof.profiler.collectors.stacks import (
    EARLY,
    EARLY_PAUSE_S,
    EARLY_SHARE,
    FAILURES,
    FIRST_S,
    PAUSE_S,
    SHARE,
    UNSTEPPED_S,
    StackCollector,
    find_program,
    parse,
)

S = 1_000_000_000
LINE = "thread (7): MainThread;<module> (/job/train.py:9);load (/job/data.py:3) 40\n"


def program(folder: Path, script: str) -> str:
    path = folder / "py-spy"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def told(tmp_path) -> str:
    (tmp_path / "raw").write_text(LINE)
    return program(tmp_path, f"echo $@ >> {tmp_path}/calls\ncat {tmp_path}/raw\n")


def calls(tmp_path: Path) -> list[str]:
    path = tmp_path / "calls"
    return path.read_text().splitlines() if path.exists() else []


def times(collector: StackCollector, until_s: float) -> list[float]:
    """When windows were taken, in s, looking twice a second."""
    found = []
    for half in range(round(until_s * 2)):
        if any(table == "stack" for table, _ in collector.sample(S + half * S // 2)):
            found.append(half / 2)
    return found


def test_first_window_is_early_then_at_random_pauses(tmp_path, told):
    collector = StackCollector(lambda: [Target(7, stepped=True)], program=told, seed=1)
    taken = times(collector, 120)
    assert taken[0] == FIRST_S
    pauses = [b - a for a, b in pairwise(taken)]
    early, pauses = pauses[:EARLY], pauses[EARLY:]
    assert all(EARLY_PAUSE_S[0] <= pause <= EARLY_PAUSE_S[1] + 1 for pause in early)
    assert all(PAUSE_S[0] <= pause <= PAUSE_S[1] + 1 for pause in pauses)
    assert len(set(pauses)) > 2


def test_waits_for_the_first_step(told):
    stepped = False
    collector = StackCollector(lambda: [Target(7, stepped=stepped)], program=told)
    assert times(collector, UNSTEPPED_S) == []
    stepped = True
    assert times(collector, 10) != []


def test_a_process_that_never_steps_is_looked_at_as_well(told):
    collector = StackCollector(lambda: [Target(7)], program=told)
    assert times(collector, 60)[0] == UNSTEPPED_S + 0.5 + FIRST_S


def test_beside_ranks_that_step_their_launcher_is_not_looked_at(tmp_path, told):
    targets = [Target(5)]
    collector = StackCollector(lambda: targets, program=told)
    before = times(collector, 60)
    assert before
    targets += [Target(7, stepped=True), Target(8, stepped=True)]
    (tmp_path / "calls").unlink()
    found = [i for i in range(120) if any(
        table == "stack" for table, _ in collector.sample(S * 60 + i * S // 2))]  # fmt: skip
    assert found[0] == 2 * FIRST_S  # anew: the first windows come early
    assert not any("--pid 5 " in call for call in calls(tmp_path))


def test_nothing_starts_without_torch(tmp_path, told):
    assert times(StackCollector(tuple, program=told), 60) == []
    assert calls(tmp_path) == []


def test_one_training_process_and_one_worker_in_turn(tmp_path, told):
    targets = [Target(1, None, True), Target(2, None, True)]
    targets += [Target(11, 0, True), Target(12, 1, True), Target(13, 2, True)]
    collector = StackCollector(lambda: targets, program=told)
    times(collector, 60)
    pids = [call.split("--pid ")[1].split()[0] for call in calls(tmp_path)]
    assert pids[:6] == ["1", "11", "2", "12", "1", "13"]
    assert "--nonblocking" in calls(tmp_path)[0]


def test_dear_windows_make_longer_pauses(tmp_path):
    burn = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done\n"
    dear = program(tmp_path, burn + f"cat <<'E'\n{LINE}E\n")
    collector = StackCollector(lambda: [Target(7, stepped=True)], program=dear)
    assert collector.sample(S) == []
    due = collector._due_ns
    for share in (*[EARLY_SHARE] * EARLY, SHARE):
        before = os.times()
        assert collector.sample(due)
        after = os.times()
        spent = sum(after[2:4]) - sum(before[2:4])
        assert spent > 0 and collector._due_ns - due >= 0.9 * spent / share * S
        due = collector._due_ns


@pytest.mark.parametrize(("scope", "word"), [("1\n", "ptrace_scope=1"), (None, "SYS_PTRACE")])
def test_not_permitted_is_one_gap_that_says_what_to_allow(tmp_path, scope, word):
    if scope:
        (tmp_path / "proc/sys/kernel/yama").mkdir(parents=True)
        (tmp_path / "proc/sys/kernel/yama/ptrace_scope").write_text(scope)
    refuses = program(tmp_path, "echo 'Permission Denied: Try running again' >&2; exit 1\n")
    collector = StackCollector(lambda: [Target(7, stepped=True)], program=refuses, root=tmp_path)
    gaps = []
    with pytest.raises(Finished):
        for half in range(200):
            gaps += [row for table, row in collector.sample(S + half * S // 2) if table == "gap"]
    assert len(gaps) == 1
    assert word in gaps[0][4]


def test_a_few_empty_windows_are_no_failure_many_are(tmp_path):
    empty = program(tmp_path, f"echo x >> {tmp_path}/calls; echo 'no python' >&2; exit 1\n")
    collector = StackCollector(lambda: [Target(7, stepped=True)], program=empty)
    gaps = []
    with pytest.raises(Finished):
        for half in range(400):
            gaps += [row for table, row in collector.sample(S + half * S // 2) if table == "gap"]
    assert len(calls(tmp_path)) == FAILURES
    assert "no python" in gaps[0][4]


def test_interrupt_ends_a_window(tmp_path):
    slow = program(tmp_path, f"touch {tmp_path}/begun; exec sleep 60\n")
    collector = StackCollector(lambda: [Target(7, stepped=True)], program=slow)
    collector.sample(S)
    looking = threading.Thread(target=collector.sample, args=(10 * S,))
    looking.start()
    while not (tmp_path / "begun").exists():
        os.sched_yield()
    began = time.monotonic()
    collector.interrupt()
    looking.join(50)
    assert time.monotonic() - began < 50


def test_without_py_spy(tmp_path):
    collector = StackCollector(tuple, program=str(tmp_path / "none"))
    collector._program = None
    (gap,) = collector.probe()
    assert "not installed" in gap.reason
    with pytest.raises(Finished):
        collector.sample(S)


def test_parse():
    odd = "thread (0xA): side; a (b);run (<string>:5) 3\nnonsense\n\nthread (1): idle 4\n"
    found = parse(LINE + LINE + odd)
    assert found == {
        ("MainThread", "<module> (/job/train.py:9);load (/job/data.py:3)"): 80,
        ("side; a (b)", "run (<string>:5)"): 3,
    }


def test_the_frames_of_the_hooks_are_not_the_jobs():
    ours = f"call ({Path(accelprof.__file__).parent}/hooks/frameworks/modules.py:9)"
    found = parse(f"thread (1): MainThread;<module> (/job/hooks/x.py:1);{ours};forward (/m.py:2) 7")
    assert list(found) == [("MainThread", "<module> (/job/hooks/x.py:1);forward (/m.py:2)")]


JOB = """
    import threading, time
    def wait_for_storage():
        time.sleep(0.01)
    def burn():
        sum(range(20000))
    print("up", flush=True)
    while True:
        wait_for_storage(); burn()
"""


def test_real_python_with_py_spy():
    assert find_program(), "py-spy is a dependency"
    job = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(JOB)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert job.stdout.readline() == "up\n"
        collector = StackCollector(lambda: [Target(job.pid, stepped=True)])
        assert collector.probe() == []
        collector.sample(S)
        rows = [row for table, row in collector.sample(4 * S) if table == "stack"]
    finally:
        job.kill()
        job.wait()
    assert rows
    assert {row[1] for row in rows} == {job.pid}
    assert {row[2] for row in rows} == {"MainThread"}
    assert all(row[3].startswith("<module> (") for row in rows)
    assert any("wait_for_storage (<string>:4)" in row[3] for row in rows)
    assert 10 <= sum(row[4] for row in rows) <= 60
