"""`accelprof run [OPTIONS] [--] COMMAND...`: options to a RunOptions; the rest is launch.py."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ..errors import UserError
from ..launch import RunOptions, launch
from .sizes import size_bytes

RATE_HZ = (0.1, 100.0)
DISK_LEAST_BYTES = 8 << 20  # an empty run file has 2 MB, its write-ahead log may grow to 16 MB


def run(  # noqa: PLR0917 - typer reads the options from the signature
    command: Annotated[
        list[str], typer.Argument(help="The job, as you would start it.", metavar="COMMAND...")
    ],
    name: Annotated[str | None, typer.Option(help="Name of the run.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="K=V; may be given many times.")] = None,
    note: Annotated[str | None, typer.Option(help="A remark, kept with the run.")] = None,
    out: Annotated[str | None, typer.Option(help="Folder to record in instead of home.")] = None,
    tui: Annotated[bool, typer.Option("--tui", help="The job in a live view of its run.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No verdict card at the end.")] = False,
    no_hooks: Annotated[bool, typer.Option("--no-hooks", help="Sample from outside only.")] = False,
    rate: Annotated[float | None, typer.Option(help="Samples a second.", metavar="HZ")] = None,
    capture: Annotated[
        str,
        typer.Option(help="Record operators: auto, off, or at a step.", metavar="auto|off|STEP"),
    ] = "auto",
    stacks: Annotated[str, typer.Option(help="Sample stacks.", metavar="auto|off")] = "auto",
    samples_per_step: Annotated[
        int | None, typer.Option(help="When it cannot be inferred.", metavar="N", min=1)
    ] = None,
    max_disk: Annotated[
        str | None, typer.Option(help="Most the run file may take: 500MB, 2GB.", metavar="SIZE")
    ] = None,
) -> int:
    """Run COMMAND unchanged; at its end print what bounds it. Exits with COMMAND's status.

    The first word that is no option begins COMMAND.

    Example: accelprof run --name baseline --tag lr=1e-3 python train.py --lr 1e-3
    """
    if not command[0]:
        raise UserError("the command is empty")
    if tui and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError("--tui needs a terminal; without it the job runs and is recorded just so")
    return (_in_view if tui else launch)(
        RunOptions(
            command=command,
            name=name,
            tags=dict(tag_pair(text) for text in tag or ()),
            note=note,
            out=out,
            quiet=quiet,
            hooks=not no_hooks,
            rate_hz=checked_rate(rate),
            capture=_capture(capture),
            stacks=checked_stacks(stacks),
            samples_per_step=samples_per_step,
            max_disk_bytes=disk_limit(max_disk),
        )
    )


def _in_view(options: RunOptions) -> int:
    from ...tui import job_app

    return job_app.run(options)


def tag_pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise UserError(f"--tag {text!r}: write it as KEY=VALUE")
    return key, value


def checked_rate(value: float | None) -> float | None:
    if value is not None and not RATE_HZ[0] <= value <= RATE_HZ[1]:
        raise UserError(f"--rate {value:g}: from {RATE_HZ[0]:g} to {RATE_HZ[1]:g} Hz")
    return value


def _capture(value: str) -> str:
    if value not in ("auto", "off") and not (value.isascii() and value.isdigit()):
        raise UserError(f"--capture {value!r}: auto, off or the number of a step")
    return value


def checked_stacks(value: str) -> str:
    if value not in ("auto", "off"):
        raise UserError(f"--stacks {value!r}: auto or off")
    return value


def disk_limit(text: str | None) -> int | None:
    """`--max-disk`: a size that a run file can have."""
    if text is None:
        return None
    size = size_bytes("--max-disk", text)
    if size < DISK_LEAST_BYTES:
        raise UserError(f"--max-disk {text!r}: at least {DISK_LEAST_BYTES >> 20}MiB")
    return size
