"""`accelprof attach`: a job that runs already is recorded from outside and not touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from accelprof.profiler.attach import check
from accelprof.profiler.errors import UserError

from .conftest import Bench, state, wait_until

JOB = """
import sys, time, pathlib
def read_batch():
    time.sleep(0.05)
def forward():
    sum(range(20000))
while not pathlib.Path("stop").exists():
    read_batch()
    forward()
"""


@pytest.fixture
def job(bench: Bench) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, bench.script(JOB, "train.py"), "--token", "secret"], cwd=bench.folder
    )
    bench.started.append(process)
    return process


def test_until_the_job_ends(bench: Bench, job: subprocess.Popen[bytes]) -> None:
    attached = bench.start("attach", str(job.pid), "--tag", "a=b")
    wait_until(lambda: bench.recorded and (bench.recorded[0] / "agent.sock").exists(), "an agent")
    assert state(job.pid) != "T"
    wait_until(lambda: bench.query("SELECT 1 FROM stack LIMIT 1"), "stacks", 40)
    (bench.folder / "stop").touch()
    assert job.wait(10) == 0
    assert attached.wait(20) == 0
    row = bench.row()
    assert (row["name"], row["state"], row["tags"]) == ("train", "finished", {"a": "b"})
    assert row["settings"]["attached_pid"] == job.pid
    assert row["cwd"] == str(bench.folder) and "secret" not in str(row["command"])
    ((role, hooks),) = bench.query(f"SELECT role, hooks FROM process WHERE pid = {job.pid}")
    assert role == "main" and hooks.startswith("attached while running")
    ((frames,),) = bench.query("SELECT string_agg(frames, ' ') FROM stack")
    assert "read_batch" in frames
    assert attached.stderr
    card = attached.stderr.read().decode()
    assert "Traceback" not in card
    # The status is seen when the job's parent has not taken it yet
    known = row["exit_status"] is not None
    assert (" finished in " if known else f"process {job.pid} watched for") in card
    assert row["exit_status"] in (None, 0)


def test_ctrl_c_ends_the_recording_and_not_the_job(
    bench: Bench, job: subprocess.Popen[bytes]
) -> None:
    attached = bench.start("attach", str(job.pid), "--stacks", "off")
    wait_until(lambda: bench.recorded and (bench.recorded[0] / "agent.sock").exists(), "an agent")
    again = bench.run("attach", str(os.getpid()))
    assert again.returncode == 2 and b"runs this command" in again.stderr
    os.killpg(attached.pid, signal.SIGINT)
    assert attached.wait(20) == 0
    assert job.poll() is None
    assert bench.row()["state"] == "finished"
    assert list(bench.recorded[0].glob("spool*")) == []


def test_a_job_that_is_recorded_already(bench: Bench) -> None:
    script = bench.script("import time, os; print(os.getpid(), flush=True); time.sleep(60)")
    outer = bench.start("run", "--quiet", sys.executable, script)
    assert outer.stdout
    pid = outer.stdout.readline().decode().strip()
    wait_until((bench.recorded[0] / "agent.sock").exists, "the agent")
    done = bench.run("attach", pid)
    assert done.returncode == 2
    assert bench.recorded[0].name in done.stderr.decode()
    os.killpg(outer.pid, signal.SIGKILL)


def fake(proc: Path, pid: int, letter: str = "S", words: str = "python\0x.py") -> Path:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"{pid} (x) {letter} 1 1")
    (folder / "cmdline").write_text(words)
    return folder


def test_what_cannot_be_attached_to_is_one_clear_line(tmp_path: Path) -> None:
    fake(tmp_path, 7)
    fake(tmp_path, 8, "Z")
    fake(tmp_path, 9, words="")
    cases = {
        (4, 0): ("no process 4", 3),
        (8, 0): ("process 8 has already ended", 3),
        (9, 0): ("process 9 is part of the kernel", 2),
        (7, 54321): ("process 7 belongs to root: attach as that user or as root", 2),
    }
    for (pid, user), (text, status) in cases.items():
        with pytest.raises(UserError) as told:
            check(pid, tmp_path, user=user)
        assert (str(told.value), told.value.status) == (text, status)
    check(7, tmp_path, user=0)


def test_ctrl_c_before_it_has_begun_leaves_a_whole_run(bench: Bench) -> None:
    with subprocess.Popen(["sleep", "60"]) as job:
        recorder = bench.start("attach", str(job.pid), "--quiet")
        runs = bench.home / "runs"
        wait_until(lambda: runs.is_dir() and any(runs.iterdir()), "the run's folder")
        recorder.send_signal(signal.SIGINT)
        assert recorder.wait(30) == 0
        job.kill()
    (folder,) = runs.iterdir()
    assert (folder / "run.duckdb").exists()
