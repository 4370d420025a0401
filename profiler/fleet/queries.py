"""The questions of `accelprof fleet`, each written once with ibis and compiled for any engine."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ..errors import UserError
from .row import ASKED, TABLE, WAITS

GROUPS = ("user", "host", "tag", "name")
WEEK_S, MONDAY_S = 604_800, 259_200  # the epoch began on a Thursday
NO_TAG, UNKNOWN, ALL = "no tag", "unknown", "all"
_SUMS = ("device_ms", "judged_ms", "usd_micros",
         *(f"lost_{name}_{what}" for name in WAITS for what in ("ms", "usd_micros")))  # fmt: skip
_TYPES = {
    "VARCHAR": "string",
    "VARCHAR[]": "array<string>",
    "BIGINT": "int64",
    "INTEGER": "int32",
}  # fmt: skip  (measurements are not asked for)
_COMPILERS = {"duckdb": "DuckDBCompiler", "pyspark": "PySparkCompiler",
              "clickhouse": "ClickHouseCompiler", "trino": "TrinoCompiler"}  # fmt: skip


class Queries:
    """SQL for one dialect over the table `summary`."""

    def __init__(self, dialect: str, *, since_s: int | None = None) -> None:
        try:
            self._ibis: Any = importlib.import_module("ibis")
            compilers = importlib.import_module("ibis.backends.sql.compilers")
        except ImportError:
            raise UserError("fleet needs ibis: pip install 'accelprof[fleet]'") from None
        self._compiler = getattr(compilers, _COMPILERS[dialect])()
        runs = self._ibis.table({name: _TYPES[sql] for name, sql in ASKED.items()}, name=TABLE)
        self._runs = runs if since_s is None else runs.filter(runs.started_s >= since_s)

    def sql(self, name: str, by: str | None = None) -> str:
        """One of `kinds`, `groups`, `weeks`, `fix_first`."""
        queries: dict[str, Callable[[], Any]] = {
            "kinds": self._kinds, "groups": lambda: self._groups(by), "weeks": self._weeks,
            "fix_first": self._fix_first,
        }  # fmt: skip
        tree = self._compiler.to_sqlglot(queries[name]())
        return str(tree.sql(dialect=self._compiler.dialect))

    def _kinds(self) -> Any:
        """By kind of device: cpu apart from accelerators."""
        runs = self._runs
        return self._sums(runs.mutate(part=runs.device_kind.fill_null(UNKNOWN))).order_by("part")

    def _groups(self, by: str | None) -> Any:
        runs = self._runs
        if by is None:
            return self._sums(runs.mutate(part=self._ibis.literal(ALL)))
        if by == "tag":
            untagged = self._ibis.array([NO_TAG])
            tags = self._ibis.ifelse(runs.tags.length() == 0, untagged, runs.tags)
            return self._sums(runs.mutate(part=tags.unnest())).order_by("part")
        return self._sums(runs.mutate(part=runs[by].fill_null(UNKNOWN))).order_by("part")

    def _weeks(self) -> Any:
        """By week, counted from Monday the 29th of December 1969."""
        runs = self._runs.filter(self._runs.started_s.notnull())
        return self._sums(runs.mutate(part=(runs.started_s + MONDAY_S) // WEEK_S)).order_by("part")

    def _sums(self, runs: Any) -> Any:
        """Sums by `part`; a run with a file a node counts once."""
        each = runs.group_by(["part", "run_id"]).aggregate(**{n: runs[n].sum() for n in _SUMS})
        return each.group_by("part").aggregate(
            runs=each.count(), **{n: each[n].sum() for n in _SUMS}
        )

    def _fix_first(self, most: int = 10) -> Any:
        runs = self._runs.filter(self._runs.gain_ms > 0)
        texts = ("name", "user", "host", "device", "bottleneck", "confidence", "cause")
        sums = ("gain_usd_micros", "gain_ms", "device_ms")
        each = runs.group_by("run_id").aggregate(
            **{name: runs[name].max() for name in texts}, started_s=runs.started_s.min(),
            **{name: runs[name].sum() for name in sums},
        )  # fmt: skip
        order = [self._ibis.desc("gain_usd_micros"), self._ibis.desc("gain_ms"), "run_id"]
        return each.order_by(order).limit(most)
