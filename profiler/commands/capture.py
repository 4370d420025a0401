"""`accelprof capture [RUN]`: asks a running job for one more operator capture."""

from __future__ import annotations

from typing import Annotated

import typer

from ...storage import library
from ..errors import UserError
from ..spool import SpoolReader
from .opening import opened

Run = Annotated[str, typer.Argument(help="Id, unique prefix, name, `last`, or a path.")]
Steps = Annotated[int, typer.Option("--steps", min=1, max=255, help="Steps to record.")]


def capture(run: Run = "last", steps: Steps = 1) -> None:
    """Ask a running job to record its operators for some steps, from its next step border on.

    The recording is in the report once the job has ended; the recorded steps are left out of the
    step statistics.

    Example: accelprof capture last --steps 2
    """
    with opened(run) as reader:
        folder, live = reader.folder, reader.live
        stepping = {pid for (pid,) in reader.rows("SELECT DISTINCT pid FROM step")} if live else {}
    if not live:
        raise UserError(f"{folder.name} is over: its operators cannot be recorded any more")
    spool = SpoolReader(folder / library.SPOOL)
    try:
        known = [(process.process, process.pid) for process in spool.poll()]
        asked = [
            pid for name, pid in known if pid in stepping and spool.request_capture(name, steps)
        ]
    finally:
        spool.close()
    if not asked:
        reason = "no process with hooks has made a step yet" if known else "its job has no hooks"
        raise UserError(f"{folder.name} cannot be asked: {reason}")
    plural = "process" if len(asked) == 1 else "processes"
    print(f"asked {len(asked)} {plural} of {folder.name} for {steps} more recorded steps")
