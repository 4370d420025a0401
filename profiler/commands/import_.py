"""`accelprof import FILE...`: what other tools recorded elsewhere becomes judged runs."""

from __future__ import annotations

import shutil
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from ...storage import library
from ..accelerators.catalogue import Accelerator, find
from ..diagnosis import diagnose, finding_rows, window_rows
from ..errors import UserError
from ..report import Report
from ..reports.card import render_card
from ..reports.summary import summary_row
from ..traces.chrome import BadTrace
from ..traces.imported import Imported
from ..traces.together import files_of, read_any, runs_of


def import_(
    files: Annotated[
        list[Path],
        typer.Argument(help="Traces (.json, .json.gz), logs of nvidia-smi, or folders of them."),
    ],
    json: Annotated[bool, typer.Option("--json", help="One JSON report a run, a line each.")] = (
        False
    ),
    name: Annotated[str | None, typer.Option(help="The runs' name; default: the file's.")] = None,
    device: Annotated[
        str | None, typer.Option(help="The accelerator, where the file does not name it (see "
                                 "accelprof accelerators).")
    ] = None,
) -> None:  # fmt: skip
    """Judge what was recorded elsewhere: traces of torch.profiler (CUDA, ROCm or CPU; also cut
    off or packed), and logs of `nvidia-smi --query-gpu=... --format=csv` and `nvidia-smi dmon`.

    Traces of several ranks of one job become one run; a log beside traces adds power, memory and
    throttling to their run.

    Example: accelprof import rank*.json.gz gpu.csv
    """
    known = find(device) if device else None
    found = []
    for given in files:
        found += _all(given, known)
    for parts in runs_of(found):
        report, folder = store(parts, name)
        if json:
            print(msgspec.json.encode(report).decode())
        else:
            print(render_card(report, sys.stdout.isatty(), folder=folder), end="")


def _all(given: Path, known: Accelerator | None) -> list[tuple[Imported, bool]]:
    """What a file says, or a folder's files: of these the unreadable ones are told and left out."""
    paths = _guarded(files_of, given)
    if not given.is_dir():
        return [_guarded(read_any, path, known) for path in paths]
    found, why = [], []
    for path in paths:
        try:
            found.append(_guarded(read_any, path, known))
        except UserError as error:
            why.append(str(error))
    if not found:
        raise UserError(f"{given}: no file of this folder can be read ({why[0]})")
    for line in why:
        print(f"accelprof: left out: {line}", file=sys.stderr)
    return found


def _guarded(read: Callable[..., Any], path: Path, *rest: Any) -> Any:
    """What `read` makes of a path; its errors as a line for the user."""
    try:
        return read(path, *rest)
    except BadTrace as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


def store(parts: list[Imported], name: str | None = None) -> tuple[Report, Path]:
    """Makes one run of what belongs together, and judges it. UserError when it cannot be kept."""
    first = parts[0].path
    several = len([part for part in parts if part.rank is not None]) > 1
    label = name or (first.resolve().parent.name if several else first.name.split(".")[0])
    folder = library.home() / "runs" / library.new_run_id(label)
    try:
        folder.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise UserError(f"cannot make {folder}: {error.strerror}") from None
    try:
        return _write(parts, folder, label), folder
    except BaseException:  # Ctrl-C too: no half run stays
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _write(parts: list[Imported], folder: Path, label: str) -> Report:
    from ...storage.writer import RunWriter

    writer = RunWriter(folder / library.RUN_FILE)
    paths = [str(part.path).encode("utf-8", "replace").decode() for part in parts]
    try:
        started = min((p.started_ns for p in parts if p.started_ns), default=time.time_ns())
        ended = max(*(p.ended_ns for p in parts), started)
        writer.update_run(
            id=folder.name, name=label, command=["accelprof", "import", *paths],
            cwd=str(Path.cwd()), host=socket.gethostname(), started_ns=started, ended_ns=ended,
            state="finished", settings=msgspec.json.encode({"imported": paths}).decode(),
        )  # fmt: skip
        for part in parts:
            for table, rows in part.rows.items():
                writer.append(table, rows)
            writer.flush()
        report = diagnose(writer.reader(), now_ns=ended)
        writer.append("window", window_rows(report, started))
        writer.append("finding", finding_rows(report))
        writer.set_meta(*summary_row(report))
        writer.flush()
    finally:
        writer.close()
    return report
