"""`accelprof import FILE...`: traces that torch.profiler wrote elsewhere become judged runs."""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from ...storage import library
from ..diagnosis import diagnose, finding_rows, window_rows
from ..errors import UserError
from ..report import Report
from ..reports.card import render_card
from ..traces.chrome import BadTrace
from ..traces.imported import Imported, import_trace


def import_(
    files: Annotated[list[Path], typer.Argument(help="Chrome traces: .json or .json.gz.")],
    json: Annotated[bool, typer.Option("--json", help="One JSON report a file, a line each.")] = (
        False
    ),
    name: Annotated[str | None, typer.Option(help="The runs' name; default: the file's.")] = None,
) -> None:
    """Judge traces that torch.profiler recorded (CUDA, ROCm or CPU; also cut off or packed).

    Example: accelprof import trace.json.gz
    """
    for path in files:
        report, folder = import_file(path, name)
        if json:
            print(msgspec.json.encode(report).decode())
        else:
            print(render_card(report, sys.stdout.isatty(), folder=folder), end="")


def import_file(path: Path, name: str | None = None) -> tuple[Report, Path]:
    """Makes a run of one trace. UserError when it cannot be read."""
    try:
        found = import_trace(path)
    except BadTrace as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    label = name or path.name.removesuffix(".gz").removesuffix(".json")
    run_id = library.new_run_id(label)
    folder = library.home() / "runs" / run_id
    try:
        folder.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise UserError(f"cannot make {folder}: {error.strerror}") from None
    return _store(found, path, folder, label), folder


def _store(found: Imported, path: Path, folder: Path, label: str) -> Report:
    from ...storage.writer import RunWriter

    writer = RunWriter(folder / library.RUN_FILE)
    try:
        started = found.started_ns or time.time_ns()
        writer.update_run(
            id=folder.name, name=label, command=["accelprof", "import", str(path)],
            cwd=str(Path.cwd()), host=socket.gethostname(), started_ns=started,
            ended_ns=found.ended_ns or started, state="finished",
            settings=msgspec.json.encode({"imported": str(path)}).decode(),
        )  # fmt: skip
        for table, rows in found.rows.items():
            writer.append(table, rows)
        writer.flush()
        report = diagnose(writer.reader(), now_ns=found.ended_ns or started)
        writer.append("window", window_rows(report, started))
        writer.append("finding", finding_rows(report))
        writer.flush()
    finally:
        writer.close()
    return report
