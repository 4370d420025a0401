"""Puts the recorder's parts together: collectors on their threads, the spool's reader, steps."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..storage import library
from .collectors import Context
from .collectors.runner import Runner, start
from .ingest import Ingest
from .launch import SPOOL_POSITIONS
from .outside import ATTACHED, SWITCHED_OFF, Outside
from .spool import SpoolReader
from .tree import JobTree

if TYPE_CHECKING:
    from .agent import Agent


# `--rate` is for what is sampled at a steady rate; stacks have a schedule of their own.
_RATED = ("host", "processes", "nvml")


def start_collectors(agent: Agent, ingest: Ingest | None) -> Runner:
    """The running collectors of this machine."""
    rate_hz = agent.settings["rate_hz"]
    outside = ingest.outside if ingest else None
    inside = ingest.targets if ingest else tuple
    context = Context(
        job=agent.job,
        pids=ingest.tree.pids if ingest else lambda: [agent.job],
        targets=outside.targets if outside else inside,
        rates_hz=dict.fromkeys(_RATED, rate_hz) if rate_hz else {},
        stacks=agent.settings["stacks"] != "off",
        hooked=outside is None,
        joined=_recorder(rate_hz),
        dcgm_url=os.environ.get("ACCELPROF_DCGM_URL"),
    )

    def write(table: str, rows: Sequence[Any]) -> None:
        if outside and table == "stack":
            outside.learn(rows)
        if table == "device":  # told again by a recorder that was started again
            agent.writer.replace(table, rows, key=("device",))
        else:
            agent.writer.append(table, rows)

    return start(context, write, clock=agent.clock)


def _recorder(rate_hz: float | None) -> Path | None:
    """The folder of the host's always-on recorder, when it samples as this run wants it."""
    from .daemon import control

    found = control.running()
    if found is None or rate_hz not in (None, control.rate_hz(found.folder)):
        return None
    return found.folder


def start_ingest(agent: Agent) -> Ingest:
    """The spool's reader with the job's process tree; after a restart from where it was."""
    with agent.writer.reader() as reader:
        first_steps = dict(reader.rows("SELECT pid, max(step) + 1 FROM step GROUP BY pid"))
    positions: dict[str, int] = {}
    with contextlib.suppress(OSError, ValueError):
        positions = json.loads((agent.folder / SPOOL_POSITIONS).read_text())
    tree, outside = JobTree(agent.job), None
    if agent.attached or not agent.settings["hooks"]:
        outside = Outside(agent.job, tree, reason=ATTACHED if agent.attached else SWITCHED_OFF)
    return Ingest(
        SpoolReader(agent.folder / library.SPOOL, clock=agent.clock, positions=positions),
        tree,
        agent.writer,
        agent.job,
        command=agent.settings["command"],
        started_ns=agent.started_ns,
        hooks_wanted=agent.settings["hooks"],
        samples_per_step=agent.settings["samples_per_step"],
        first_steps=first_steps,
        on_environment=agent.learn_environment,
        outside=outside,
    )
