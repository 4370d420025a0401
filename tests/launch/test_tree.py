"""The job's tree out of a made-up /proc, and the reasons why hooks were not loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelprof.profiler.tree import JobTree, Seen, python_flags, why_not_hooked


class Proc:
    """A folder that looks like /proc."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "stat").write_text("cpu 1 2 3\nbtime 1000\n")

    def put(
        self, pid: int, ppid: int, children: list[int], words: list[str], start: int = 5
    ) -> None:
        """One process. `start` in clock ticks since boot."""
        here = self.folder / str(pid)
        task = here / "task" / str(pid)
        task.mkdir(parents=True, exist_ok=True)
        rest = " ".join(["0"] * 17)
        (here / "stat").write_text(f"{pid} (a) b (c)) S {ppid} {rest} {start} 0")
        (task / "children").write_text(" ".join(map(str, children)))
        (here / "cmdline").write_bytes(b"\0".join(w.encode() for w in words) + b"\0")
        (here / "environ").write_bytes(b"A=1\0B=2\0")
        link = here / "exe"
        link.unlink(missing_ok=True)
        link.symlink_to(words[0])

    def take(self, pid: int) -> None:
        """The process is gone."""
        (self.folder / str(pid) / "stat").unlink()


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_the_tree(proc: Proc) -> None:
    proc.put(10, 1, [11], ["/bin/bash", "x.sh"])
    proc.put(11, 10, [12], ["/usr/bin/python3.11", "t.py", "--token", "abc"])
    proc.put(12, 11, [], ["/usr/bin/python3.11", "-I"])
    proc.put(99, 1, [], ["/bin/other"])
    tree = JobTree(10, proc=proc.folder)
    seen = {one.pid: one for one in tree.scan(1)}
    assert sorted(seen) == [10, 11, 12]
    assert seen[11].program == "python3.11" and seen[11].command.endswith("--token ***")
    assert seen[11].environ == {"A": "1", "B": "2"}
    assert seen[11].ppid == 10 and seen[11].started_ns == 1000 * 10**9 + 5 * 10**7
    assert tree.scan(2) == []
    # The middle one goes: its child is an orphan and still followed.
    proc.take(11)
    proc.put(10, 1, [], ["/bin/bash", "x.sh"])
    proc.put(12, 1, [], ["/usr/bin/python3.11", "-I"])
    assert [(one.pid, one.ended_ns) for one in tree.scan(3)] == [(11, 3)]
    assert sorted(tree.pids()) == [10, 12]
    # A new process has the pid of an old one; another called exec.
    proc.put(12, 1, [], ["/bin/foreign"], start=9)
    proc.put(10, 1, [], ["/usr/bin/python3.11", "y.py"])
    assert [(one.pid, one.program, one.ended_ns) for one in tree.scan(4)] == [
        (12, "python3.11", 4), (10, "python3.11", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("python x.py -I", ""), ("python -I x.py", "I"), ("python -uEs x.py", "uEs"),
        ("python -W ignore -S x.py", "WS"), ("python -Wignore -S x.py", "WS"),
        ("python -c I -E", "c"), ("python -m mod -E", "m"), ("python -X dev -I -c pass", "XIc"),
        ("python -Bc pass -I", "Bc"), ("python --check-hash-based-pycs always -I x", "I"),
        ("python", ""), ("python - -I", ""),
    ],
)  # fmt: skip
def test_python_flags(command: str, flags: str) -> None:
    assert python_flags(command.split()) == set(flags)


GOOD = {"ACCELPROF_SPOOL": "x", "PYTHONPATH": "x"}


@pytest.mark.parametrize(
    ("program", "command", "environ", "part"),
    [
        ("bash", "bash", GOOD, "not Python (bash)"), ("", "", GOOD, "not Python (unknown program)"),
        ("python3", "python3 -I x", GOOD, "python -I"), ("python3.13t", "python -ES x", GOOD, "-E"),
        ("python", "python x", {}, "scrubbed"), ("python", "python x", None, "cannot be read"),
        ("pypy3", "pypy3 x", GOOD, "no hook reported"),
        ("python", "python x", GOOD | {"ACCELPROF_DISABLE": "1"}, "ACCELPROF_DISABLE=1"),
    ],
)  # fmt: skip
def test_why_not_hooked(
    program: str, command: str, environ: dict[str, str] | None, part: str
) -> None:
    seen = Seen(1, 0, 0, program, command.split(), environ)
    assert part in why_not_hooked(seen)
    assert why_not_hooked(seen, hooks_wanted=False) == "switched off (--no-hooks)"
