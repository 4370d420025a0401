"""`accelprof export [RUN] WHERE`: hands a run on."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from ...storage.reader import RunReader
from ..errors import UserError
from ..reports import figures
from .opening import examined, opened, report_of, require_content

_WAYS = "--parquet DIR, --csv DIR, --trace FILE, --tensorboard DIR, --mlflow, --wandb, --otlp URL"


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
    wandb: Annotated[
        bool, typer.Option("--wandb", help="To Weights & Biases, or WANDB_MODE=offline (an extra).")
    ] = False,
    otlp: Annotated[
        str | None,
        typer.Option(metavar="ENDPOINT", help="http://HOST:4318 or grpc://HOST:4317 (an extra)."),
    ] = None,
) -> None:
    """Write a run, finished or live, in formats that other tools read.

    Example: accelprof export last --parquet lake --trace run.json.gz
    """
    if not any((parquet, csv, trace, tensorboard, mlflow, wandb, otlp)):
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
            _tracker(reader, "mlflow", "MLflow")
        if wandb:
            _tracker(reader, "wandb", "W&B")
        if otlp is not None:
            _otlp(reader, otlp)


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


def _tracker(reader: RunReader, module: str, name: str) -> None:
    """Figures, curves and reports to an experiment tracker."""
    from ..exports import series
    from ..reports import html, json_, markdown

    tracker = importlib.import_module(f"...exports.{module}", __name__)
    report, view = examined(reader)
    found = series.read(reader, view)
    texts = {"report.html": html.render(report, found), "report.md": markdown.render(report),
             "report.json": json_.render(report)}  # fmt: skip
    ident = tracker.write(report, found, texts)
    _told(f"metrics and reports to the {name} run {ident}")


def _otlp(reader: RunReader, endpoint: str) -> None:
    from ..exports import otlp, series

    report, view = examined(reader)
    count = otlp.write(report, series.read(reader, view), endpoint)
    _told(f"{figures.count(count, 'data point')} to {endpoint}")


def _told(what: str) -> None:
    print(f"accelprof: wrote {what}", file=sys.stderr)
