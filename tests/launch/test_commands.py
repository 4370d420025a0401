"""The command line: one line for each mistake, a status, never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from accelprof.profiler.commands import COMMANDS

from .conftest import Bench


@pytest.mark.parametrize(
    ("words", "status", "part"),
    [
        (["nosuch"], 2, "No such command 'nosuch'"),
        (["repotr"], 2, "did you mean report?"),
        (["--nosuch"], 2, "No such option: --nosuch"),
        (["run"], 2, "Missing argument"),
        (["run", "--nosuch", "true"], 2, "No such option: --nosuch"),
        (["run", "--tui", "true"], 2, "--tui needs a terminal"),
        (["run", "--tag", "x", "true"], 2, "KEY=VALUE"),
        (["run", "--rate", "0", "true"], 2, "--rate 0"),
        (["run", "--capture", "some", "true"], 2, "--capture 'some'"),
        (["run", "--stacks", "some", "true"], 2, "--stacks 'some'"),
        (["run", "--samples-per-step", "0", "true"], 2, "--samples-per-step"),
        (["run", "--max-disk", "many", "true"], 2, "--max-disk 'many'"),
        (["run", "--max-disk", "1KB", "true"], 2, "at least"),
        (["run", ""], 127, "command not found"),
        (["sql", "SELECT 1"], 3, "no run 'last'"),
        (["sql", "nosuch", "SELECT 1"], 3, "no run 'nosuch'"),
        (["sql", "--all", "SELECT 1", "SELECT 2"], 2, "give one query in quotes"),
        (["sql", "--all", "SELECT 1"], 3, "can be asked"),
        (["sql", "a", "b", "c"], 2, "one query in quotes"),
    ],
)
def test_a_mistake_is_one_line(bench: Bench, words: list[str], status: int, part: str) -> None:
    done = bench.run(*words)
    lines = done.stderr.decode().splitlines()
    assert done.returncode == status
    assert len(lines) == 1 and lines[0].startswith("accelprof: ") and part in lines[0]
    assert done.stdout == b""


def test_one_query_of_all_runs(bench: Bench) -> None:
    for name in ("one", "two"):
        assert (
            bench.run("run", "--quiet", "--stacks", "off", "--name", name, "true").returncode == 0
        )
    done = bench.run("sql", "--all", "SELECT name, state FROM run")
    head, *rows = [line.split("\t") for line in done.stdout.decode().splitlines()]
    assert head == ["run_id", "name", "state"]
    assert sorted(row[1:] for row in rows) == [["one", "finished"], ["two", "finished"]]
    assert {row[0] for row in rows} == {folder.name for folder in bench.recorded}


def test_help_has_an_example_for_every_command(bench: Bench) -> None:
    top = bench.run("--help").stdout.decode()
    for name, _ in COMMANDS:
        assert name in top
        done = bench.run(name, "--help")
        assert done.returncode == 0, done.stderr
        assert f"accelprof {name}" in done.stdout.decode().split("Example")[1]


@pytest.mark.parametrize(
    ("line", "words"),
    [("accelprof re", ["report"]), ("accelprof runs --verd", ["--verdict"]),
     ("accelprof runs r", ["rm"])],
)  # fmt: skip
def test_the_shell_completes(line: str, words: list[str]) -> None:
    asked = {"_ACCELPROF_COMPLETE": "complete_bash", "COMP_WORDS": line,
             "COMP_CWORD": str(line.count(" "))}  # fmt: skip
    done = subprocess.run(
        [Path(sys.executable).with_name("accelprof")], env=os.environ | asked,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.split() == words, done.stderr


def test_version(bench: Bench) -> None:
    assert bench.run("--version").stdout.decode().startswith("accelprof ")


def test_options_end_at_the_first_other_word(bench: Bench) -> None:
    done = bench.run("run", "--quiet", "echo", "--name", "x", "--help", "--")
    assert (done.returncode, done.stdout) == (0, b"--name x --help --\n")
    done = bench.run("run", "--quiet", "--", "echo", "-n", "x")
    assert done.stdout == b"x"
    assert bench.run("run", "echo", "--quiet").stdout == b"--quiet\n"


def test_a_file_that_is_no_run(bench: Bench) -> None:
    (bench.folder / "job.duckdb").write_bytes(b"x")
    done = bench.run("sql", bench.folder / "job.duckdb", "SELECT 1")
    assert done.returncode == 2
    assert done.stderr.decode().startswith(f"accelprof: {bench.folder}/job.duckdb: not a run file")


def test_sql(bench: Bench) -> None:
    bench.run("run", "--quiet", "--name", "one", "true")
    done = bench.run("sql", "one", "--json", "SELECT name, 1.5::DECIMAL AS x, NULL AS y FROM run")
    assert json.loads(done.stdout) == {
        "schema": "accelprof.sql/1",
        "columns": ["name", "x", "y"],
        "rows": [["one", "1.500", None]],
    }
    assert bench.run("sql", "SELECT name FROM run").stdout == b"name\none\n"
    for wrong, said in (
        ("DROP TABLE run", "SELECT"),
        ("SELECT nosuch FROM run", 'Referenced column "nosuch" not found'),
        ("SELECT * FROM setps", "Did you mean"),
        ("SELECT (1", "syntax error"),
    ):
        done = bench.run("sql", wrong)
        assert (done.returncode, done.stdout) == (2, b"")
        (line,) = done.stderr.decode().splitlines()
        assert line.startswith("accelprof: ") and said in line
