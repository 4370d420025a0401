"""`accelprof tune [OPTIONS] [--] COMMAND...`: measured trials of other DataLoader settings."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ..errors import UserError
from ..launch import warn
from .spans import seconds

_ENDINGS = (signal.SIGTERM, signal.SIGHUP)


def tune(  # noqa: PLR0917 - typer reads the options from the signature
    command: Annotated[
        list[str], typer.Argument(help="The job, as you would start it.", metavar="COMMAND...")
    ],
    steps: Annotated[
        int | None,
        typer.Option(min=8, metavar="N", help="Steady steps a trial [default: 40 and 2 s]."),
    ] = None,
    try_: Annotated[
        list[str] | None,
        typer.Option("--try", metavar="KEY=V,V", help="Values to try; given twice: combinations."),
    ] = None,
    budget: Annotated[str, typer.Option(help="Time for all trials: 90s, 10m, 1h.")] = "10m",
    scratch: Annotated[
        bool,
        typer.Option("--scratch", help="Run the trials in a copy of the working folder."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")] = False,
) -> None:
    """Run COMMAND for some steps under other DataLoader settings; say which is best, and where.

    Your code stays as it is: the settings are put in where the job makes its DataLoader. One more
    trial replays batches from memory: the most that fixing the input can bring. Each trial is
    ended as by Ctrl-C. KEY is num_workers, prefetch_factor, persistent_workers, pin_memory,
    main_threads, worker_threads, cudnn_benchmark or matmul_precision (which changes numerics).
    Without --try, numbers of workers and what may help beside them are chosen by the usable cores.

    Example: accelprof tune --try num_workers=2,4,8 python train.py --lr 1e-3
    """
    from ..host_limits import host_limits
    from ..tuning import result, search, settings
    from ..tuning import scratch as copies
    from ..tuning.trial import run_trial

    if not command[0]:
        raise UserError("the command is empty")
    if shutil.which(command[0]) is None:
        raise UserError(f"{command[0]}: command not found")
    asked_tries = settings.combinations(settings.parse_tries(try_ or ()))
    budget_s = seconds("--budget", budget)
    work = Path(tempfile.mkdtemp(prefix="accelprof-tune-"))
    cwd = Path.cwd()
    numbers = count(1)

    def folder() -> Path:
        if scratch:
            copies.refresh(cwd, work / "copy")
        return work / str(next(numbers))

    asked = search.Asked(
        command=command, cwd=work / "copy" if scratch else cwd, tries=asked_tries, steps=steps,
        budget_s=budget_s, cores=host_limits().cpus_usable,
    )  # fmt: skip
    if not scratch:
        warn("each trial is the job itself and writes what it writes; --scratch runs it in a copy")
    began = time.monotonic()
    for signo in _ENDINGS:
        if signal.getsignal(signo) is not signal.SIG_IGN:  # as nohup asks
            signal.signal(signo, _end)
    try:
        one = search.Search(asked, run_trial, folder, warn)
        one.search()
        found = result.result(one, time.monotonic() - began)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if found.change is not None and scratch:
        found.change.file = found.change.file.replace(str(work / "copy"), str(cwd), 1)
    sys.stdout.write(_json(found) if json else result.render(found) + "\n")


def _end(signo: int, _: object) -> NoReturn:
    """Unlike Ctrl-C this asks for no answer; the trial that runs is ended first."""
    for ending in _ENDINGS:
        signal.signal(ending, signal.SIG_IGN)
    raise SystemExit(128 + signo)


def _json(found: object) -> str:
    import msgspec

    fields = msgspec.to_builtins(found)
    body = {"schema": fields.pop("schema"), **fields}
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode() + "\n"
