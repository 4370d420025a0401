"""`accelprof calibrate`: measure this machine's ceilings and keep them."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
import typer

from ...storage import library
from ..accelerators import calibration


def calibrate(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    python: Annotated[
        str | None, typer.Option(help="The job's Python, when it is not accelprof's own.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="At most 10 s, a little less exact.")] = (
        False
    ),
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="CPU threads of the job; default: all usable CPUs."),
    ] = None,
) -> None:
    """Measure matmul rate, memory bandwidth and launch cost of this machine, and keep them.

    Example: accelprof calibrate --python .venv/bin/python
    """
    interpreter = python or sys.executable
    print("accelprof: measuring; leave the machine alone meanwhile", file=sys.stderr)
    found = calibration.measure(interpreter, threads, quick=quick)
    for torch in (found.torch, None):
        for count in {threads, found.threads}:
            path = calibration.cache_path(library.home(), interpreter, torch, count)
            calibration.save(found, path)
    if json:
        print(msgspec.json.encode(found).decode())
        return
    print(describe(found))


def describe(found: calibration.Calibration) -> str:
    """The figures for a person."""
    lines = [f"{found.hardware.get('cpu')}, {found.threads} threads, torch {found.torch}"]
    for precision, rate in sorted(found.flops.items()):
        lines.append(f"  matmul {precision:<6} {rate / 1e9:10.0f} GFLOP/s")
    lines.append(f"  memory triad  {found.bytes_per_s / 1e9:10.1f} GB/s")
    if found.read_bytes_per_s:
        lines.append(f"  memory read   {found.read_bytes_per_s / 1e9:10.1f} GB/s")
    if found.launch_s:
        lines.append(f"  one small op  {found.launch_s * 1e6:10.2f} us")
    return "\n".join(lines + [f"  note: {note}" for note in found.notes])
