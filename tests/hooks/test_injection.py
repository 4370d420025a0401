"""Getting into every Python of a job, and staying out of its sight."""

from __future__ import annotations

import os
import subprocess
import sys
from ast import literal_eval
from pathlib import Path

import pytest
from hooked import INJECT, ROOT, VERSIONS, both, run

VIEW = """
    import os, sys, json
    print(json.dumps({
        "path": sys.path, "argv": sys.argv, "flags": repr(sys.flags), "file": __file__,
        "modules": sorted(m for m in sys.modules
                          if not m.startswith("_accelprof_hooks") and m != "atexit"),
        "caches": sorted(sys.path_importer_cache),
        "env": {k: v for k, v in os.environ.items() if not k.startswith("ACCELPROF_")},
        "getenv": os.getenv("PYTHONPATH"),
        "bytes": os.environb.get(b"PYTHONPATH", b"-").decode(),
    }, indent=1, sort_keys=True))
"""
CHILD = "import sys; print('_accelprof_hooks' in sys.modules)"


@pytest.mark.parametrize("own", [None, "", "/nowhere", "/nowhere:/elsewhere"])
def test_the_job_sees_its_own_environment(tmp_path: Path, own: str | None) -> None:
    environ = {} if own is None else {"PYTHONPATH": own}
    _, ours = both(VIEW, tmp_path, "an argument", **environ)
    (process,) = ours.processes()
    (fact,) = process.fact("process")
    assert fact["argv"][-1] == "an argument" and fact["ppid"] == os.getpid()
    assert process.fact("exit") and not process.spans


def pythons() -> list[Path]:
    found = sorted(VERSIONS.glob("3.*/bin/python")) + sorted(VERSIONS.glob("2.*/bin/python"))
    return found or [Path(sys.executable)]


@pytest.mark.parametrize("python", pythons(), ids=lambda p: p.parent.parent.name)
def test_any_python_starts_as_without(tmp_path: Path, python: Path) -> None:
    script = "import sys\nprint(sys.path)\n"
    script += "print(sorted(m for m in sys.modules if m[:1] != '_' and m != 'atexit'))\n"
    plain = run(script, tmp_path, hooks=False, python=python)
    ours = run(script, tmp_path, python=python)
    assert (ours.out, ours.err) == (plain.out, plain.err)
    told = run("import sys; print(sys.version_info[:2])", tmp_path, hooks=False, python=python)
    assert len(ours.processes()) == (1 if literal_eval(told.out) >= (3, 9) else 0)


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_isolated_is_left_alone(tmp_path: Path, option: str) -> None:
    ours = run("import sys; print(sys.path)", tmp_path, options=(option,))
    assert not ours.processes() and "_accelprof" not in ours.out + ours.err


@pytest.mark.parametrize("option", ["-s", "-P", "-O", "-B"])
def test_other_options_do_not_matter(tmp_path: Path, option: str) -> None:
    if option == "-P" and sys.version_info < (3, 11):
        pytest.skip("-P came with Python 3.11")
    assert len(run("pass", tmp_path, options=(option,)).processes()) == 1


def test_disabled_loads_nothing(tmp_path: Path) -> None:
    script = VIEW + "    print([m for m in sys.modules if 'accelprof' in m])"
    _, ours = both(script, tmp_path, ACCELPROF_DISABLE="1")
    assert not ours.processes() and not list(ours.spool.iterdir())


def test_users_sitecustomize_and_usercustomize_run_once(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("print('site', __name__, __file__)\nMARK = 1\n")
    (site / "usercustomize.py").write_text("print('user', __name__, __file__)\n")
    script = "import sitecustomize, sys; print(sitecustomize.MARK, sitecustomize.__spec__.origin)"
    python = str(Path(sys.base_prefix) / "bin" / "python3")  # a venv has no user site
    _, ours = both(script, tmp_path, PYTHONPATH=str(site), python=python)
    assert ours.out.count("site ") == 1 and ours.out.count("user ") == 1
    assert len(ours.processes()) == 1


@pytest.mark.parametrize("text", ["raise ValueError('mine')", "import not_there", "1 +"])
def test_users_broken_sitecustomize_breaks_as_without(tmp_path: Path, text: str) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(text)
    script = "import sys; print('sitecustomize' in sys.modules)"
    both(script, tmp_path, PYTHONPATH=str(site))


SPAWNS = {
    "inherit": "subprocess.run(ARGS)",
    "copy": "subprocess.run(ARGS, env=os.environ.copy())",
    "more": "subprocess.run(ARGS, env={**os.environ, 'MORE': '1'})",
    "own path": "subprocess.run(ARGS, env={**os.environ, 'PYTHONPATH': '/nowhere'})",
    "changed": "os.environ['PYTHONPATH'] = '/nowhere'; subprocess.run(ARGS)",
    "changed, system": "os.environ['PYTHONPATH'] = '/nowhere'; os.system(SHELL)",
    "removed": "os.environ['PYTHONPATH'] = '/x'; os.unsetenv('PYTHONPATH'); subprocess.run(ARGS)",
    "deleted": "os.environ['PYTHONPATH'] = '/x'; del os.environ['PYTHONPATH']; os.system(SHELL)",
    "system": "os.system(SHELL)",
    "popen": "print(os.popen(SHELL).read(), end='')",
    "posix_spawn": "os.waitpid(os.posix_spawn(ARGS[0], ARGS, os.environ), 0)",
    "posix_spawn bytes": "os.waitpid(os.posix_spawnp(ARGS[0], ARGS, os.environb), 0)",
    "execv": "os.execv(ARGS[0], ARGS)",
    "execve": "os.execve(ARGS[0], ARGS, dict(os.environ))",
    "execvpe": "os.execvpe(ARGS[0], ARGS, dict(os.environ))",
    "spawnve": "os.spawnve(os.P_WAIT, ARGS[0], ARGS, dict(os.environ))",
    "no close_fds": "subprocess.run(ARGS, env=dict(os.environ), close_fds=False)",
}


@pytest.mark.parametrize("how", SPAWNS)
def test_children_are_reached(tmp_path: Path, how: str) -> None:
    script = f"""
        import os, subprocess, sys
        CODE = "import sys, os; print(sys.path, os.environ.get('PYTHONPATH'))"
        ARGS = [sys.executable, "-c", CODE]
        SHELL = '"%s" -c "%s"' % (ARGS[0], ARGS[2])
        {SPAWNS[how]}
    """
    _, ours = both(script, tmp_path)
    processes = ours.processes()
    # exec keeps the pid, and is a Python of its own
    assert len(processes) == 2, [p.facts for p in processes]


def test_scrubbed_environment_stays_scrubbed(tmp_path: Path) -> None:
    script = """
        import subprocess, sys
        print(subprocess.run([sys.executable, "-c", "import os; print(sorted(os.environ))"],
                             env={"LANG": "C"}, capture_output=True, text=True).stdout)
    """
    _, ours = both(script, tmp_path)
    assert len(ours.processes()) == 1


def test_patched_functions_of_os_look_as_before(tmp_path: Path) -> None:
    script = """
        import inspect, os
        for name in ("execve", "posix_spawn", "putenv", "unsetenv", "fsync"):
            f = getattr(os, name)
            print(name, f.__name__, f.__qualname__, f.__module__, f.__doc__)
        print([str(inspect.signature(f)) for f in (os.execve, os.putenv, os.fsync)])
        print(os.execve in os.supports_fd)
        try:
            os.execve("/not/there", ["x"], {})
        except OSError as error:
            print(error)
        for wrong in (lambda: os.posix_spawn("/bin/true"), lambda: os.putenv(1, 2),
                      lambda: os.execve(path="/x", argv=["x"], env=3), lambda: os.unsetenv()):
            try:
                wrong()
            except TypeError as error:
                print(error)
    """
    both(script, tmp_path)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(tmp_path: Path, method: str) -> None:
    script = f"""
        import multiprocessing, os, sys

        def work(n):
            sys.stdout.write("%d %s\\n" % (n, "_accelprof_hooks" in sys.modules or "plain"))
            sys.stdout.flush()
            return n

        if __name__ == "__main__":
            context = multiprocessing.get_context("{method}")
            pool = context.Pool(2)
            print(sum(pool.map(work, range(4), chunksize=2)))
            pool.close()
            pool.join()
    """
    ours = run(script, tmp_path)
    assert ours.out.count("True") == 4 and "6" in ours.out and not ours.err
    # A forked child that has nothing to tell has no file
    expected = {"fork": 1, "spawn": 4, "forkserver": 3}[method]
    assert len(ours.processes()) == expected


@pytest.mark.parametrize("installed", [False, True])
def test_import_accelprof(tmp_path: Path, installed: bool) -> None:
    """With an installed one, or in an environment that has none."""
    script = """
        import accelprof, sys
        print(sorted(m for m in sys.modules if m.startswith("accelprof")))
        try:
            import accelprof.profiler
        except ImportError:
            print("light")

        @accelprof.phase("whole")
        def whole():
            with accelprof.phase("part"):
                accelprof.samples(7)
            return 3

        async def later():
            return 4
        import asyncio
        later = accelprof.phase("later")(later)
        def items():
            yield from (1, 2)
        items = accelprof.phase("items")(items)
        print(whole(), whole.__name__, asyncio.run(later()), list(items()))
        try:
            with accelprof.phase("part"):
                raise KeyError(1)
        except KeyError:
            pass
        accelprof.step()
    """
    python = sys.executable if installed else str(Path(sys.base_prefix) / "bin" / "python3")
    ours = run(script, tmp_path, python=python)
    assert "['accelprof']" in ours.out and "3 whole 4 [1, 2]" in ours.out
    assert ("light" in ours.out) is not installed
    main = ours.main()
    names = {f["id"]: f["name"] for f in main.fact("phase")}
    assert [(s.kind, names.get(s.ident), s.value) for s in main.spans if s.kind != "GC"] == [
        ("SAMPLES", None, 7), ("PHASE", "part", 0), ("PHASE", "whole", 0), ("PHASE", "later", 0),
        ("PHASE", "items", 0), ("PHASE", "part", 0), ("STEP_MARK", None, 0),
    ]  # fmt: skip
    assert [s.flags for s in main.of("PHASE")] == [0, 0, 0, 0, 0x40]
    plain = run(script, tmp_path, hooks=False, python=sys.executable)
    assert "3 whole 4 [1, 2]" in plain.out


def test_file_descriptors_start_where_they_did(tmp_path: Path) -> None:
    both("import os; print(os.open('/dev/null', os.O_RDONLY))", tmp_path)


@pytest.mark.parametrize("spool", ["/not/there", "/dev/null", "/proc"])
def test_a_spool_that_cannot_be_written(tmp_path: Path, spool: str) -> None:
    script = "import accelprof; accelprof.step(); accelprof.samples(3); print('done')"
    path = tmp_path / "job.py"
    path.write_text(script)
    env = os.environ | {"PYTHONPATH": str(INJECT), "ACCELPROF_SPOOL": spool}
    done = subprocess.run(
        [sys.executable, str(path)], env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_bytecode_goes_to_the_spool_where_the_folder_is_read_only(tmp_path: Path) -> None:
    """A copy of the hooks in a read-only file system, or one that only root could write."""
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(
        ROOT / "hooks", copy / "hooks", ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
    )
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    spool = tmp_path / "spool"
    spool.mkdir(mode=0o777)
    spool.chmod(0o777)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(copy / "hooks" / "inject")}
    env |= {"ACCELPROF_SPOOL": str(spool)}
    for parent in spool.parents:
        if parent.owner() == Path.home().owner() and parent != Path("/tmp"):
            parent.chmod(0o755)
    as_nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
    python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
    done = subprocess.run(
        [python, "-c", CHILD],
        env=env, capture_output=True, text=True, cwd="/", check=False, **as_nobody,
    )  # fmt: skip
    if done.returncode == 126 or "Permission" in done.stderr:
        pytest.skip("another user cannot run this Python")
    assert done.stdout == "True\n", done.stderr
    assert list((spool / "pycache").rglob("*.pyc")) and not list(copy.rglob("*.pyc"))
    for path in [copy, *copy.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
