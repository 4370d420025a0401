"""A home that cannot be written, a disk that is or becomes full: the job does not notice."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from accelprof.storage.library import list_runs
from accelprof.storage.reader import open_run

from .conftest import Bench, wait_until


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A file system of its own, or the test is skipped."""
    folder.mkdir(exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


@pytest.mark.parametrize("options", ["size=1m", "ro"])
def test_a_full_or_read_only_home(bench: Bench, options: str, tmp_path: Path) -> None:
    with mounted(bench.home, options):
        spare = tmp_path / "spare"
        spare.mkdir()
        done = bench.run("run", "--quiet", "sh", "-c", "exit 3", env={"TMPDIR": str(spare)})
        assert done.returncode == 3
        lines = done.stderr.decode().splitlines()
        assert len(lines) == 1
        match = re.fullmatch(r"accelprof: cannot record in .*: .+; recording in (\S+)", lines[0])
        assert match
        with open_run(Path(match[1])) as reader:
            assert reader.rows("SELECT exit_status FROM run") == [(3,)]


def test_no_place_to_record_at_all(bench: Bench) -> None:
    bench.script("x", "home")  # a file where the home should be
    with mounted(bench.folder / "tmp", "size=1m") as spare:
        done = bench.run("run", "sh", "-c", "exit 3", env={"TMPDIR": str(spare)})
    assert done.returncode == 3
    assert re.fullmatch(
        r"accelprof: cannot record in .*/home/runs: .+; the job runs unrecorded\n",
        done.stderr.decode(),
    )


def test_a_disk_that_gets_full(bench: Bench) -> None:
    """What was stored before stays; the job and its status are untouched; the user is told."""
    with mounted(bench.home, "size=24m"):
        script = "while [ ! -e stop ]; do sleep 0.05; done; exit 3"
        process = bench.start("run", "--quiet", "sh", "-c", script)
        run = wait_until(lambda: list_runs(bench.home / "runs"), "a run")[0]
        wait_until((run / "agent.sock").exists, "the agent is at work")
        with contextlib.suppress(OSError), open(bench.home / "ballast", "wb") as ballast:
            while True:
                ballast.write(bytes(1 << 16))
                ballast.flush()
        log = run / "log.txt"
        (bench.folder / "stop").touch()
        assert process.wait(30) == 3
        assert process.stderr
        text = process.stderr.read().decode()
        assert "Traceback" not in text
        assert log.exists()
        with open_run(run) as reader:
            (state,) = reader.rows("SELECT state FROM run")[0]
        assert (state == "failed") != ("incomplete" in text)


def test_max_disk_ends_the_samples_and_not_the_job(bench: Bench) -> None:
    done = bench.run("run", "--quiet", "--max-disk", "8MiB", "sleep", "1")
    assert done.returncode == 0
    assert bench.row()["settings"]["max_disk_bytes"] == 8 << 20


def test_out_names_the_folder(bench: Bench) -> None:
    out = bench.folder / "out"
    assert bench.run("run", "--quiet", "--out", out, "true").returncode == 0
    assert len(list_runs(out)) == 1
    assert bench.recorded == []
    done = bench.run("sql", out, "SELECT name FROM run")
    assert done.stdout.decode().splitlines() == ["name", "true"]


def test_two_runs_at_once_and_many_readers(bench: Bench) -> None:
    """Twenty reports at the same time while both runs live."""
    command = ["run", "--quiet", "sh", "-c", "while [ ! -e stop ]; do sleep 0.05; done"]
    runs = [bench.start(*command) for _ in range(2)]
    wait_until(
        lambda: len([r for r in bench.recorded if (r / "agent.sock").exists()]) == 2, "both agents"
    )
    read = (
        "import sys, pathlib\n"
        "from accelprof.storage.reader import open_run\n"
        "with open_run(pathlib.Path(sys.argv[1])) as run:\n"
        "    print(run.live, *run.rows('SELECT state FROM run')[0])\n"
    )
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", read, bench.recorded[number % 2]],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for number in range(20)
    ]
    for reader in readers:
        out, err = reader.communicate(timeout=60)
        assert (out.split(), err) == ([b"True", b"running"], b"")
    (bench.folder / "stop").touch()
    assert [run.wait(20) for run in runs] == [0, 0]
