"""`accelprof export [RUN] WHERE`: hands a run on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ...storage.reader import RunReader
from ..errors import UserError
from ..reports import figures
from .opening import examined, opened, report_of, require_content

_WAYS = "--parquet DIR, --csv DIR, --trace FILE, --tensorboard DIR, --mlflow"


def export(  # noqa: PLR0917 - typer reads the options from the signature
    run: Annotated[str, typer.Argument(help="Id, unique prefix, name, 'last' or path.")] = "last",
    parquet: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|URL",
            help="All tables, DIR/TABLE/run=ID/node=HOST/data.parquet; s3://... by an extra.",
        ),
    ] = None,
    csv: Annotated[str | None, typer.Option(metavar="DIR|URL", help="The same as CSV.")] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Chrome trace for Perfetto: .json or .json.gz."),
    ] = None,
    tensorboard: Annotated[
        Path | None, typer.Option(metavar="DIR", help="TensorBoard scalars (an extra).")
    ] = None,
    mlflow: Annotated[
        bool,
        typer.Option("--mlflow", help="To MLFLOW_TRACKING_URI (an extra)."),
    ] = False,
    wandb: Annotated[bool, typer.Option("--wandb", hidden=True)] = False,
    otlp: Annotated[str | None, typer.Option("--otlp", hidden=True, metavar="ENDPOINT")] = None,
) -> None:
    """Write a run, finished or live, in formats that other tools read.

    Example: accelprof export last --parquet lake --trace run.json.gz
    """
    for name, given in (("--wandb", wandb), ("--otlp", otlp)):
        if given:
            raise UserError(f"{name} is not supported yet; there are {_WAYS}")
    if not any((parquet, csv, trace, tensorboard, mlflow)):
        raise UserError(f"say where to: {_WAYS}")
    with opened(run) as reader:
        require_content(reader)
        for kind, place in (("parquet", parquet), ("csv", csv)):
            if place is not None:
                _tables(reader, place, kind)
        if trace is not None:
            _trace(reader, trace)
        if tensorboard is not None:
            _tensorboard(reader, tensorboard)
        if mlflow:
            _mlflow(reader)


def _tables(reader: RunReader, place: str, kind: str) -> None:
    from ..exports import tabular
    from ..fleet.row import row

    user = reader.rows('SELECT "user" FROM run LIMIT 1')[0][0]
    count = tabular.write(reader, place, kind, row(report_of(reader), user))
    _told(f"{figures.count(count, 'table')} to {place}")


def _trace(reader: RunReader, path: Path) -> None:
    from ..exports import trace

    _told(f"{figures.count(trace.write(reader, path), 'event')} to {path}")


def _tensorboard(reader: RunReader, folder: Path) -> None:
    from ..exports import series, tensorboard

    report, view = examined(reader)
    started_s = (view.run.get("started_ns") or 0) / 1e9
    count = tensorboard.write(report, series.read(reader, view), folder, started_s)
    _told(f"{figures.count(count, 'scalar')} to {folder}")


def _mlflow(reader: RunReader) -> None:
    from ..exports import mlflow, series
    from ..reports import html, json_, markdown

    report, view = examined(reader)
    found = series.read(reader, view)
    texts = {"report.html": html.render(report, found), "report.md": markdown.render(report),
             "report.json": json_.render(report)}  # fmt: skip
    _told(f"metrics and reports to the MLflow run {mlflow.write(report, found, texts)}")


def _told(what: str) -> None:
    print(f"accelprof: wrote {what}", file=sys.stderr)
