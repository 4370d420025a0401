"""The always-on recorder: its life, the jobs it finds, what reads it, and runs that join it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from accelprof.profiler.daemon.jobs import HostJobs
from accelprof.storage.library import list_runs
from accelprof.storage.reader import open_run

from .conftest import ACCELPROF, Host, wait_until

# Has a file of a framework's name mapped, as a real one has its libraries
JOB = """
import mmap, pathlib, sys, time
file = pathlib.Path(sys.argv[1], "libtorch_cpu.so")
file.write_bytes(bytes(4096))
opened = open(file, "rb")
kept = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
while not pathlib.Path(sys.argv[1], "stop").exists():
    time.sleep(0.05)
"""


def start_job(host: Host, *prefix: str) -> subprocess.Popen[bytes]:
    script = host.folder / "train_big.py"
    script.write_text(JOB)
    # A command that is not UTF-8, and a rank that is none
    words = [*prefix, sys.executable, script, host.folder, "--token", "hush", b"caf\xe9"]
    environ = host.environ | {"SLURM_JOB_ID": "77", "RANK": "²"}
    return subprocess.Popen(words, env=environ, process_group=0)


def reported(host: Host, job: str) -> dict[str, Any] | None:
    """The recorder's report once it names the job."""
    done = host.run("report", "daemon", "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found if job in [one["name"] for one in found["jobs"]] else None


def told(host: Host) -> str:
    """What a report that does not name it says, beside the table that it is made from."""
    jobs = json.loads(host.run("report", "daemon", "--json").stdout)["jobs"]
    rows = host.query("SELECT process, facts->>'$[0].k', facts->>'$[0].name', facts FROM process")
    return f"the report names it: {jobs} of {rows}"


def test_its_life(host: Host) -> None:
    """Start, a job, a report, kill -9, a restart in the same file, stop."""
    assert host.status()["running"] is False
    assert host.run("daemon", "stop").returncode == 3
    done = host.run("daemon", "start", "--max-disk", "300MB", "--rate", "20")
    assert done.returncode == 0, done.stderr
    job = start_job(host)
    try:
        wait_until(lambda: len(host.status()["devices"]) == 2, "both cards")
        status = host.status()
        assert status["running"] and status["pid"] and status["since"]
        assert [d["catalogue"] for d in status["devices"]] == ["h100-sxm-80gb", "t4"]
        assert status["disk_limit_bytes"] == 300_000_000
        assert 0 < status["disk_bytes"] < 300_000_000
        again = host.run("daemon", "start")
        assert (again.returncode, again.stderr) == (
            2, f"accelprof: the recorder runs already (pid {status['pid']})\n"
        )  # fmt: skip
        mine = f"FROM event WHERE pid = {job.pid} AND kind"  # beside other jobs of this host
        wait_until(lambda: host.query(f"SELECT 1 {mine} = 'job-start'"), "the job")
        ((data,),) = host.query(f"SELECT data {mine} = 'job-start'")
        about = json.loads(data)
        assert (about["name"], about["tags"]) == ("train_big", {"slurm_job": "77"})
        assert "hush" not in data
        rows = host.query(f"SELECT role, command FROM process WHERE pid = {job.pid}")
        assert rows and rows[0][0] == "main" and rows[0][1].endswith("--token *** caf?")
        sampled = f"SELECT 1 FROM process_sample WHERE pid = {job.pid} LIMIT 1"
        wait_until(lambda: host.query(sampled), "its samples")
        found = wait_until(lambda: reported(host, "train_big"), lambda: told(host))
        assert len(found["devices"]) == 2 and found["utilisation"]["power_w"]
        # The cards of a host do not work on one job: an H100 beside a T4 is as it should be
        assert "mixed-hardware" not in [one["id"] for one in found["findings"]]

        os.kill(status["pid"], signal.SIGKILL)
        wait_until(lambda: not host.status()["running"], "the recorder is gone")
        assert host.run("daemon", "start").returncode == 0
        (host.folder / "stop").touch()
        assert job.wait(10) == 0
        wait_until(lambda: host.query(f"SELECT 1 {mine} = 'job-end'"), "the end")
        assert host.query("SELECT count(*) FROM device") == [(2,)]
        assert host.query("SELECT count(*) FROM event WHERE kind = 'daemon-start'") == [(2,)]
    finally:
        job.kill()
        job.wait()
    assert host.run("daemon", "stop").returncode == 0
    assert host.query("SELECT state FROM run") == [("finished",)]
    assert host.status()["running"] is False


def test_a_run_joins_it_and_goes_on_when_it_ends(host: Host) -> None:
    assert host.run("daemon", "start").returncode == 0
    run = subprocess.Popen(
        [*ACCELPROF, "run", "--quiet", "--stacks", "off", "sh", "-c",
         f"while [ ! -e {host.folder}/end ]; do sleep 0.05; done"],
        env=host.environ,
    )  # fmt: skip
    try:
        folder = wait_until(lambda: list_runs(host.home / "runs"), "a run")[0]
        wait_until((folder / "agent.sock").exists, "its agent")

        def rows(sql: str) -> list[tuple[object, ...]]:
            with open_run(folder) as reader:
                return reader.rows(sql)

        wait_until(lambda: rows("SELECT device FROM device_sample LIMIT 1"), "joined samples")
        assert host.run("daemon", "stop").returncode == 0
        wait_until(lambda: rows("SELECT 1 FROM gap WHERE source = 'daemon'"), "it takes over")
        ((last,),) = rows("SELECT max(t_ns) FROM device_sample")
        wait_until(
            lambda: rows(f"SELECT 1 FROM device_sample WHERE t_ns > {last} LIMIT 1"), "its own"
        )
        (host.folder / "end").touch()
        assert run.wait(30) == 0
    finally:
        run.kill()
        run.wait()
    with open_run(folder) as reader:
        ((quality,),) = reader.rows("SELECT quality FROM run")
        assert reader.rows("SELECT count(*) FROM device") == [(2,)]
    assert {"daemon", "nvml", "host", "processes"} <= json.loads(quality)["collectors"].keys()


def test_a_damaged_recording_is_put_aside(host: Host) -> None:
    folder = host.home / "daemon"
    folder.mkdir(parents=True)
    (folder / "run.duckdb").write_bytes(b"rubbish" * 1000)
    assert host.run("daemon", "start").returncode == 0
    assert len(list(folder.glob("damaged-*.duckdb"))) == 1
    assert host.query("SELECT state FROM run") == [("running",)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["stop", "--foreground"], "are of `start`"),
        (["start", "--json"], "--json is of `status`"),
        (["start", "--max-disk", "many"], "write a size as"),
        (["restart"], "restart"),
    ],
)
def test_wrong_use_is_one_line(tmp_path: Path, words: list[str], message: str) -> None:
    environ = {**os.environ, "ACCELPROF_HOME": str(tmp_path)}
    done = subprocess.run(
        [*ACCELPROF, "daemon", *words], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert message in done.stderr and done.stderr.count("\n") == 1


OUTER = """
import mmap, os, pathlib, subprocess, sys
folder = pathlib.Path(sys.argv[1])
file = folder / "libtorch_outer.so"
file.write_bytes(bytes(4096))
inner = subprocess.Popen([sys.executable, "-c", sys.argv[2], sys.argv[1]], process_group=0,
                         stdout=subprocess.DEVNULL)
print(os.getpid(), inner.pid, flush=True)
sys.stdin.readline()
opened = open(file, "rb")
kept = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
print("works", flush=True)
sys.stdin.readline()
"""


def test_a_job_within_the_tree_of_a_later_one_keeps_its_processes(tmp_path: Path) -> None:
    # Forked off: no descendant of the tests, beside which other tests may be a job
    with subprocess.Popen(
        ["setsid", "--fork", sys.executable, "-c", OUTER, tmp_path, JOB], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
    ) as outer:  # fmt: skip
        assert outer.stdin and outer.stdout
        outermost, inner = map(int, outer.stdout.readline().split())
        jobs, owner = HostJobs(), dict[int, str]()

        def scan() -> dict[int, str]:
            for what, job, seen in jobs.scan(time.time_ns()):
                if what == "process":
                    owner[seen.pid] = job.key
            return owner

        wait_until(lambda: inner in scan(), "the inner job")
        mine = owner[inner]
        outer.stdin.write("\n")
        outer.stdin.flush()
        assert outer.stdout.readline() == "works\n"
        wait_until(lambda: outermost in scan(), "the outer job")
        assert owner[inner] == mine != owner[outermost]
        assert len(jobs.pids()) == len(set(jobs.pids()))
        (tmp_path / "stop").touch()
        wait_until(lambda: inner not in (scan() and jobs.pids()), "the end of the inner job")
        assert owner[inner] == mine
        outer.stdin.close()
