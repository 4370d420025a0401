"""Whoever reads a command's output may go away; the command ends as it would have."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ACCELPROF = [sys.executable, "-m", "accelprof"]


def gone() -> int:
    """A pipe that nobody reads any more."""
    read, write = os.pipe()
    os.close(read)
    return write


def ended(*words: str, stdout: int, stderr: int = subprocess.PIPE) -> tuple[int, str]:
    done = subprocess.run([*ACCELPROF, *words], stdout=stdout, stderr=stderr, check=False)
    os.close(stdout)
    return done.returncode, (done.stderr or b"").decode()


@pytest.mark.parametrize(
    ("words", "status"),
    [(["accelerators", "--json"], 0), (["--help"], 0), (["devices", "--expect", "v100"], 1)],
)
def test_a_reader_that_is_gone_changes_no_status(words: list[str], status: int) -> None:
    found, said = ended(*words, stdout=gone())
    assert found == status
    assert all(line.startswith("accelprof: expected v100") for line in said.splitlines())


def test_nor_one_of_what_it_says() -> None:
    assert ended("runs", stdout=gone(), stderr=gone())[0] == 0


def test_a_full_disk_is_told() -> None:
    found, said = ended("accelerators", stdout=os.open("/dev/full", os.O_WRONLY))
    assert (found, said) == (2, "accelprof: cannot write the output: No space left on device\n")


def test_no_stdout_at_all() -> None:
    shell = 'exec "$@" >&-'
    done = subprocess.run(["sh", "-c", shell, "sh", *ACCELPROF, "accelerators"],
                          capture_output=True, check=False)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
