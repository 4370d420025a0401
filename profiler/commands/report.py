"""`accelprof report [RUN...]`: the report of a run, finished or live, or of a job's nodes."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...storage.reader import RunReader
from ..errors import UserError
from ..reports import FORMATS
from .opening import examined, opened

if TYPE_CHECKING:
    from ..diagnosis.model import RunView
    from ..report import Report

_SUFFIXES = {".md": "md", ".markdown": "md", ".json": "json", ".txt": "txt", ".htm": "html"}


def report(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Id, prefix, name, path or 'last' (default). Several: one job's nodes.",
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option("--format", help="md, html, json or txt [default: by -o, else txt]."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write to FILE instead of stdout.")
    ] = None,
) -> None:
    """Say where a run's time went, why, and what to change.

    Several runs are taken as the nodes of one job, each recorded by its own `accelprof run`: their
    ranks are compared, and their clocks.

    Example: accelprof report last -o report.md
    """
    chosen = _format(format, json, output)
    with contextlib.ExitStack() as stack:
        names = dict.fromkeys(runs or ["last"])
        readers = [stack.enter_context(opened(name)) for name in names]
        found, view = examined(*readers)
        if chosen == "html":
            text = _html(found, view, readers[view.node])
        else:
            text = FORMATS[chosen](found)
    if output is None:
        _print(text)
    else:
        _write(output, text)


def _html(found: Report, view: RunView, reader: RunReader) -> str:
    """With charts of the run over time, which the other formats have no place for."""
    from ..exports import series
    from ..reports import html

    return html.render(found, series.read(reader, view))


def _format(given: str | None, json: bool, output: Path | None) -> str:
    """The format's name: what was asked for, else what the file's suffix says."""
    if json and given not in (None, "json"):
        raise UserError(f"--json and --format {given} exclude each other")
    if json:
        return "json"
    name = given.lower() if given else None
    if name is None and output is not None:
        suffix = output.suffix.lower()
        name = _SUFFIXES.get(suffix, suffix.removeprefix(".") or "none")
    if name is None:
        return "txt"
    if name not in FORMATS:
        what = f"the format {name!r}" if given else f"a report in {str(output)!r}"
        raise UserError(f"cannot write {what}: the formats are {', '.join(FORMATS)}")
    return name


def _print(text: str) -> None:
    # What the terminal's encoding cannot show is shown as ?, not as a traceback
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    sys.stdout.write(text)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None
    print(f"accelprof: wrote {path}", file=sys.stderr)
