"""Exit status, bytes and environment of a job are those it has without accelprof."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys

import pytest

from .conftest import Bench

ENDS = {
    "0": ("pass", 0, "finished"),
    "1": ("raise SystemExit(1)", 1, "failed"),
    "3": ("import sys; sys.exit(3)", 3, "failed"),
    "text": ("raise SystemExit('sorry')", 1, "failed"),
    "exception": ("raise ValueError('x')", 1, "failed"),
    "os._exit": ("import os; os._exit(7)", 7, "failed"),
    "KILL": ("import os; os.kill(os.getpid(), 9)", 137, "killed"),
    "SEGV": ("import os; os.kill(os.getpid(), 11)", 139, "killed"),
    "TERM": ("import os; os.kill(os.getpid(), 15)", 143, "killed"),
}


@pytest.mark.parametrize("end", ENDS)
def test_the_exit_status_is_the_jobs(bench: Bench, end: str) -> None:
    text, status, state = ENDS[end]
    done = bench.job(text)
    assert done.returncode == status
    row = bench.row()
    assert (row["exit_status"], row["state"]) == (status, state)
    plain = subprocess.run(
        [sys.executable, bench.folder / "job.py"],
        check=False,
        capture_output=True,
    )
    assert done.stdout == plain.stdout
    assert done.stderr == plain.stderr


def test_a_signal_is_kept_beside_the_status(bench: Bench) -> None:
    bench.job(ENDS["SEGV"][0])
    assert bench.query("SELECT data->>'signal' FROM event WHERE kind = 'end'") == [("11",)]


@pytest.mark.parametrize(
    ("command", "status", "line"),
    [
        (["nosuch-command"], 127, "accelprof: nosuch-command: command not found\n"),
        (["./nosuch"], 127, "accelprof: ./nosuch: No such file or directory\n"),
        (["./plain"], 126, "accelprof: ./plain: Permission denied\n"),
        (["./folder"], 126, "accelprof: ./folder: Is a directory\n"),
        (["./binary"], 126, "accelprof: ./binary: Exec format error\n"),
        (["./lost"], 127, "accelprof: ./lost: the interpreter in its first line was not found\n"),
    ],
)
def test_what_cannot_be_started(bench: Bench, command: list[str], status: int, line: str) -> None:
    bench.script("echo no", "plain").chmod(0o644)
    (bench.folder / "folder").mkdir()
    bench.script("\0\1\2\3", "binary").chmod(0o755)
    bench.script("#!/nosuch/interpreter\n", "lost").chmod(0o755)
    done = bench.run("run", *command)
    assert (done.returncode, done.stderr.decode()) == (status, line)
    assert bench.recorded == []


def test_a_script_without_a_first_line_runs_in_a_shell(bench: Bench) -> None:
    bench.script("echo $0 $1; exit 5\n", "script").chmod(0o755)
    done = bench.run("run", "--quiet", "./script", "a b")
    assert (done.returncode, done.stdout) == (5, b"./script a b\n")


def test_100_mb_go_through_a_pipe_unchanged(bench: Bench) -> None:
    text = (
        "import hashlib, os, sys\n"
        "data = sys.stdin.buffer.read()\n"
        "os.write(2, hashlib.sha256(data).hexdigest().encode())\n"
        "sys.stdout.buffer.write(data[::-1])\n"
    )
    data = os.urandom(1 << 20) * 100
    done = bench.job(text, input=data)
    assert done.returncode == 0
    assert done.stderr.decode() == hashlib.sha256(data).hexdigest()
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(data[::-1]).digest()


def test_a_closed_pipe_ends_the_job_and_not_accelprof(bench: Bench) -> None:
    command = f"{sys.executable} -m accelprof run --quiet yes | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command],
        check=False,
        env=bench.environ,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stdout.split() == ["y", str(128 + signal.SIGPIPE)]
    assert done.stderr == ""


def test_the_writer_before_us_sees_the_job_close_its_input(bench: Bench) -> None:
    """`yes | accelprof run head -1`: the launcher holds no copy of the pipe."""
    script = "import os, sys, time\nos.close(0)\nsys.stdin = None\nopen('closed', 'w').close()\n"
    script += "while not os.path.exists('go'): time.sleep(0.01)\n"
    bench.script(script)
    read, write = os.pipe()
    process = bench.start("run", "--quiet", sys.executable, "job.py", stdin=read)
    os.close(read)
    with pytest.raises(BrokenPipeError):
        while True:
            os.write(write, b"x" * 65536)
    os.close(write)
    (bench.folder / "go").touch()
    assert process.wait(20) == 0


def test_the_job_sees_its_own_environment(bench: Bench) -> None:
    text = (
        "import os, signal, sys\n"
        "names = sorted(k for k in os.environ if not k.startswith('ACCELPROF_'))\n"
        "print([(k, os.environ[k]) for k in names if k != 'PYTHONPATH'])\n"
        "print(os.getpgrp() == os.getpgid(os.getppid()), os.getsid(0) == os.getsid(os.getppid()))\n"
        "fields = dict(x.split(':') for x in open('/proc/self/status').read().splitlines())\n"
        # glibc's posix_spawn leaves its own two signals, 32 and 33, ignored
        "print([int(fields[k], 16) & ~(3 << 31) for k in ('SigBlk', 'SigIgn')])\n"
        "print(sorted(os.listdir('/proc/self/fd')))\n"
    )
    done = bench.job(text)
    plain = subprocess.run(
        [sys.executable, "job.py"],
        check=False,
        env=bench.environ,
        cwd=bench.folder,
        capture_output=True,
    )
    assert done.stdout == plain.stdout


def test_pythonpath_keeps_its_own_and_gets_no_empty_entry(bench: Bench) -> None:
    show = ["sh", "-c", "echo $PYTHONPATH; echo $ACCELPROF_PYTHONPATH"]
    first = bench.run("run", "--quiet", *show).stdout.decode().splitlines()
    assert first[0].endswith("/hooks/inject") and first[1] == ""
    kept = bench.run("run", "--quiet", *show, env={"PYTHONPATH": "/a:/b"})
    assert kept.stdout.decode().splitlines() == [f"{first[0]}:/a:/b", "/a:/b"]
    off = bench.run("run", "--quiet", "--no-hooks", *show, env={"PYTHONPATH": "/a"})
    assert off.stdout.decode().splitlines() == ["/a", ""]


def test_a_run_within_a_run(bench: Bench) -> None:
    inner = [sys.executable, "-m", "accelprof", "run", "--quiet", "sh", "-c", "echo $PYTHONPATH"]
    done = bench.run("run", "--quiet", *inner, env={"PYTHONPATH": "/a"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().strip().endswith("/hooks/inject:/a")
    assert done.stdout.count(b"/hooks/inject") == 1
    assert len(bench.recorded) == 2


def test_the_reason_why_hooks_did_not_reach(bench: Bench) -> None:
    text = (
        "import subprocess, sys\n"
        "wait = 'import time; time.sleep(1.5)'\n"
        "words = [[sys.executable, flag, '-c', wait] for flag in ('-I', '-E', '-S')]\n"
        "children = [subprocess.Popen(command) for command in words]\n"
        "children.append(subprocess.Popen(['sleep', '1.5']))\n"
        "children.append(subprocess.Popen([sys.executable, '-c', wait], env={}))\n"
        "for child in children: child.wait()\n"
    )
    assert bench.job(text).returncode == 0
    reasons = {reason for (reason,) in bench.query("SELECT hooks FROM process")}
    assert {
        "python -I (isolated mode)", "python -E (ignores PYTHONPATH)",
        "python -S (no site module)", "not Python (sleep)",
        "its environment was scrubbed (no PYTHONPATH of accelprof)",
    } <= reasons  # fmt: skip


def test_the_run_is_described_without_secrets(bench: Bench) -> None:
    done = bench.run(
        "run", "--quiet", "--name", "a b/c", "--tag", "lr=3", "--tag", "x=y=z", "--note", "n",
        "true", "--token", "abc123", env={"TORCH_TOKEN": "abc123", "OMP_NUM_THREADS": "2"},
    )  # fmt: skip
    assert done.returncode == 0
    row = bench.row()
    assert row["command"] == ["true", "--token", "***"]
    assert (row["name"], row["tags"], row["note"]) == ("a b/c", {"lr": "3", "x": "y=z"}, "n")
    assert row["id"] == bench.recorded[0].name
    assert row["environment"]["variables"]["OMP_NUM_THREADS"] == "2"
    assert b"abc123" not in (bench.recorded[0] / "run.duckdb").read_bytes()
    assert row["quality"]["profiler_rss_bytes"] < 150e6


def test_files_are_private(bench: Bench) -> None:
    bench.run("run", "--quiet", "true")
    folder = bench.recorded[0]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {
        "run.duckdb": 0o600, "log.txt": 0o600,
    }  # fmt: skip
