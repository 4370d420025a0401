"""A run on MLflow: metrics, tags and the reports as artifacts, by MLflow's own client (an extra).

They go to the MLflow run that the job itself made: the one of MLFLOW_RUN_ID, else the single one
that began while the job ran and has its script as source; else to a new run of the experiment
MLFLOW_EXPERIMENT_NAME (default `accelprof`).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..report import Report
from ..series import Series
from .values import scalars, sums, tags

BATCH = 900  # metrics a request; MLflow takes 1,000
MOST_EXPERIMENTS = 50
# A server that is not there is an error of seconds, not of minutes
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "30"}


def write(report: Report, series: Series, artifacts: Mapping[str, str]) -> str:
    """Logs everything; the id of the MLflow run. `artifacts`: texts by file name."""
    environ = os.environ
    uri = environ.get("MLFLOW_TRACKING_URI")
    if not uri:
        raise UserError("--mlflow: set MLFLOW_TRACKING_URI to the server or store to log to")
    for name, value in _PATIENCE.items():
        environ.setdefault(name, value)
    library = _library()
    try:
        client = library.MlflowClient(tracking_uri=uri)
        own = environ.get("MLFLOW_RUN_ID") or _jobs_own(client, report)
        run_id = own or _new(client, report, environ.get("MLFLOW_EXPERIMENT_NAME", "accelprof"))
        _log(library, client, run_id, report, series)
        for name, text in artifacts.items():
            client.log_text(run_id, text, f"accelprof/{name}")
        if own is None:
            client.set_terminated(run_id, end_time=_ms(report.run.ended_at))
    except library.exceptions.MlflowException as error:
        first = str(error).splitlines()[0][:300]
        raise UserError(f"MLflow at {uri}: {first}") from None
    return str(run_id)


def _library() -> Any:
    try:
        return importlib.import_module("mlflow")
    except ImportError:
        raise UserError("--mlflow needs MLflow: pip install 'accelprof[mlflow]'") from None


def _ms(iso: str | None) -> int | None:
    return None if iso is None else round(datetime.fromisoformat(iso).timestamp() * 1e3)


def _jobs_own(client: Any, report: Report) -> str | None:
    """The only MLflow run that began while the job ran and came from its script."""
    script = next((Path(w).name for w in report.run.command if w.endswith(".py")), None)
    begin, end = _ms(report.run.started_at), _ms(report.run.ended_at)
    if script is None or begin is None or end is None:
        return None
    experiments = client.search_experiments(max_results=MOST_EXPERIMENTS)
    found = client.search_runs(
        [experiment.experiment_id for experiment in experiments],
        f"attributes.start_time >= {begin} AND attributes.start_time <= {end}",
    )
    same = [
        run.info.run_id for run in found
        if Path(run.data.tags.get("mlflow.source.name", "")).name == script
    ]  # fmt: skip
    return same[0] if len(same) == 1 else None


def _new(client: Any, report: Report, experiment: str) -> str:
    known = client.get_experiment_by_name(experiment)
    ident = known.experiment_id if known else client.create_experiment(experiment)
    started = _ms(report.run.started_at)
    made = client.create_run(ident, start_time=started, run_name=report.run.name or report.run.id)
    return str(made.info.run_id)


def _log(library: Any, client: Any, run_id: str, report: Report, series: Series) -> None:
    entities = library.entities
    begin = _ms(report.run.started_at) or 0
    end = begin + round((report.run.wall_s or 0.0) * 1e3)
    metrics = [entities.Metric(name, value, end, 0) for name, value in sums(report)]
    metrics += [
        entities.Metric(name.replace("accelprof/", "accelprof/over_time/", 1), value,
                        begin + round(at_s * 1e3), step)
        for at_s, step, name, value in scalars(series)
    ]  # fmt: skip
    for at in range(0, len(metrics), BATCH):
        client.log_batch(run_id, metrics=metrics[at : at + BATCH])
    for key, value in tags(report).items():
        client.set_tag(run_id, f"accelprof.{key}", value)
