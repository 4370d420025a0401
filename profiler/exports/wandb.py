"""A run on Weights & Biases by its own client (an extra): figures, curves, the reports.

They go to the run that the job itself made: the one of WANDB_RUN_ID, else the single one in its
folder that began while the job ran; else to a new run. WANDB_MODE=offline writes them to disk.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..report import Report
from ..series import Series
from .values import scalars, sums, tags

_FOLDER = re.compile(r"(?:offline-)?run-(\d{8}_\d{6})-([A-Za-z0-9_-]+)")
AXIS = "accelprof/step"  # our own: the job's steps on W&B may count something else


def write(report: Report, series: Series, artifacts: Mapping[str, str]) -> str:
    """Logs everything; the id of the W&B run. `artifacts`: texts by file name."""
    wandb = _library()
    if not os.environ.get("WANDB_MODE") and not _has_key():
        raise UserError(
            "--wandb: nobody is logged in; set WANDB_API_KEY, or WANDB_MODE=offline to write "
            "to disk and `wandb sync` later"
        )
    own = os.environ.get("WANDB_RUN_ID") or _jobs_own(report)
    try:
        run = wandb.init(
            id=own, resume="allow" if own else None,
            project=os.environ.get("WANDB_PROJECT", "accelprof"),
            name=None if own else report.run.name or report.run.id,
            settings=wandb.Settings(
                silent=True, console="off", disable_git=True, disable_code=True,
                x_disable_stats=True, x_disable_meta=True,
            ),
        )  # fmt: skip
        _log(wandb, run, report, series, artifacts)
        run.finish()
    except (wandb.errors.Error, OSError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0][:300]
        raise UserError(f"Weights & Biases: {first}") from None
    return str(run.id)


def _library() -> Any:
    try:
        return importlib.import_module("wandb")
    except ImportError:
        raise UserError("--wandb needs its client: pip install 'accelprof[wandb]'") from None


def _has_key() -> bool:
    """Whether a request could say who asks; without a key the client would ask the terminal."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    import netrc

    host = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai").partition("://")[2]
    try:
        return netrc.netrc().authenticators(host.strip("/")) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def _jobs_own(report: Report) -> str | None:
    """The only W&B run whose folder, below that of the job, began while it ran."""
    if not report.run.started_at or not report.run.ended_at or not report.run.cwd:
        return None
    begin, end = map(datetime.fromisoformat, (report.run.started_at, report.run.ended_at))
    found = set()
    for path in (Path(report.run.cwd) / "wandb").glob("*run-*"):
        if match := _FOLDER.fullmatch(path.name):
            made = datetime.strptime(match[1], "%Y%m%d_%H%M%S").astimezone()
            if int(begin.timestamp()) <= made.timestamp() <= end.timestamp():
                found.add(match[2])
    return found.pop() if len(found) == 1 else None


def _log(
    wandb: Any, run: Any, report: Report, series: Series, artifacts: Mapping[str, str]
) -> None:
    run.define_metric("accelprof/*", step_metric=AXIS)
    for point in points(series):
        run.log(point)
    run.summary.update(dict(sums(report)))
    run.summary.update({f"accelprof/{key}": value for key, value in tags(report).items()})
    bundle = wandb.Artifact(f"accelprof-{report.run.id}", type="accelprof-report")
    for name, text in artifacts.items():
        with bundle.new_file(name, mode="w", encoding="utf-8") as file:
            file.write(text)
    run.log_artifact(bundle)


def points(series: Series) -> Iterator[dict[str, float]]:
    """The values of one moment together, in order of time."""
    ordered = sorted(scalars(series), key=lambda one: (one[0], one[1]))
    for (at_s, step), group in groupby(ordered, key=lambda one: (one[0], one[1])):
        yield {AXIS: step, "accelprof/seconds": at_s} | {name: value for *_, name, value in group}
