"""A comparison of runs, as plain data: what every output shows and `--json` prints.

Keys of "accelprof.compare/1". Lists of values are in the order of `runs`; None is "not known".
`ratio`, `interval` and `significant` set the last run against the first.
"""

from __future__ import annotations

from typing import Any

import msgspec

Interval = tuple[float, float]


class Change(msgspec.Struct, frozen=True):
    """Something that is not the same in all runs."""

    name: str
    values: list[Any]


class Against(msgspec.Struct, frozen=True):
    """One run against the first. `significant` None: too few steps to tell."""

    run: str
    ratio: float | None = None
    interval: Interval | None = None  # 95 %, of the ratio
    difference: float | None = None
    difference_interval: Interval | None = None  # 95 %
    significant: bool | None = None


class Metric(msgspec.Struct, frozen=True):
    name: str
    unit: str
    values: list[float | None]
    ratio: float | None
    interval: Interval | None
    significant: bool | None
    against_first: list[Against]


class Measure(msgspec.Struct, frozen=True):
    """One of the eight figures by which people choose an accelerator, and how each is known."""

    name: str
    unit: str
    values: list[float | None]
    how: list[str]  # why it is not known, or what it rests on; empty when measured


class Changed(msgspec.Struct, frozen=True):
    arguments: list[Change]
    environment: list[Change]
    hardware: list[Change]
    git: list[Change]
    settings: list[Change]  # of loaders and optimizers, as the hooks saw them made
    git_stat: str | None = None  # between the first and the last commit


class Verdict(msgspec.Struct, frozen=True):
    bottleneck: str
    confidence: str
    cause: str | None
    headline: str
    speedup_limit: float | None


class Comparison(msgspec.Struct, frozen=True):
    runs: list[str]
    names: list[str]
    changed: Changed
    metrics: list[Metric]
    verdicts: list[Verdict]
    findings: list[Change]  # by id, whether each run has it
    headline: str
    notes: list[str]  # what weakens the comparison
    table: list[Measure] | None = None
    schema: str = "accelprof.compare/1"
