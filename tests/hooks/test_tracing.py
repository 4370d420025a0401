"""Yama: the job lets its launcher's descendants read it, where that is asked for at all."""

from __future__ import annotations

from pathlib import Path

from hooked import run


def test_the_launcher_is_let_in_under_scope_1_and_after_a_fork(tmp_path: Path) -> None:
    script = """
        import os, sys, torch
        tracing = sys.modules["_accelprof_hooks.tracing"]
        spool = os.environ["ACCELPROF_SPOOL"]

        def prctl(*args):
            print(*args, flush=True)

        for scope in ("0", "1", "2", "rubbish"):
            open("scope", "w").write(scope + "\\n")
            tracing.allow("scope", prctl)  # no launcher yet
        open(spool + "/tracer", "w").write("4321")
        for scope in ("0", "1", "2", "rubbish"):
            open("scope", "w").write(scope + "\\n")
            tracing.allow("scope", prctl)
        tracing.allow("nothing here", prctl)
        if os.fork() == 0:
            tracing.after_fork(prctl)
            os._exit(0)
        os.wait()
        open("scope", "w").write("1")
        tracing.allow("scope")  # the kernel's own answer, whichever it is
    """
    ended = run(script, tmp_path)
    assert ended.out == "1499557217 4321 0 0 0\n" * 2 and not ended.err
    assert not ended.main().fact("hook_off")
