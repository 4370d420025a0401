"""`accelprof attach PID`: records a job that is already running."""

from __future__ import annotations

from typing import Annotated

import typer

from ..launch import RunOptions
from .run import checked_rate, checked_stacks, disk_limit, tag_pair


def attach(  # noqa: PLR0917 - typer reads the options from the signature
    pid: Annotated[int, typer.Argument(help="The job's process, with all its children.", min=1)],
    name: Annotated[str | None, typer.Option(help="Name of the run.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="K=V; may be given many times.")] = None,
    note: Annotated[str | None, typer.Option(help="A remark, kept with the run.")] = None,
    out: Annotated[str | None, typer.Option(help="Folder to record in instead of home.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No verdict card at the end.")] = False,
    rate: Annotated[float | None, typer.Option(help="Samples a second.", metavar="HZ")] = None,
    stacks: Annotated[str, typer.Option(help="Sample stacks.", metavar="auto|off")] = "auto",
    max_disk: Annotated[
        str | None, typer.Option(help="Most the run file may take: 500MB, 2GB.", metavar="SIZE")
    ] = None,
) -> None:
    """Record a job that is already running, from outside, until it ends or Ctrl-C.

    Devices, host, processes and stacks are sampled; steps and operators need hooks, which only
    `accelprof run` can bring in. Ctrl-C ends the recording, never the job.

    Example: accelprof attach 12345 --name baseline
    """
    from ..attach import attach as record

    record(
        pid,
        RunOptions(
            command=[],
            name=name,
            tags=dict(tag_pair(text) for text in tag or ()),
            note=note,
            out=out,
            quiet=quiet,
            rate_hz=checked_rate(rate),
            stacks=checked_stacks(stacks),
            max_disk_bytes=disk_limit(max_disk),
        ),
    )
