"""Means over a run whose older samples are rolled up: every 10 s count alike, however many rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...storage import rollup

if TYPE_CHECKING:
    from .view import Reader

_TABLE = re.compile(rf"\bFROM ({'|'.join(rollup.TABLES)})\b")


class EvenReader:
    """A reader whose means are of stretches of equal length; all else goes through as it is."""

    def __init__(self, reader: Reader, tables: dict[str, str]) -> None:
        self._reader = reader
        self._tables = tables

    def rows(self, sql: str, params: Sequence[Any] = (), /) -> list[tuple[Any, ...]]:
        if "avg(" in sql:
            sql = _TABLE.sub(lambda found: f"FROM {self._tables[found[1]]} {found[1]}", sql)
        return self._reader.rows(sql, params)


def evened(reader: Reader) -> Reader:
    """The reader itself for a run that is as it was recorded."""
    if not reader.rows("SELECT 1 FROM meta WHERE key = ?", (rollup.META_KEY,)):
        return reader
    columns: dict[str, list[tuple[str, str]]] = {}
    for table, name, kind in reader.rows(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal "
        "AND schema_name = 'main' ORDER BY table_name, column_index"
    ):
        columns.setdefault(table, []).append((name, kind))
    bucket_ns = rollup.LEVELS[-1].bucket_ns
    return EvenReader(
        reader,
        {table: rollup.coarser(table, columns[table], bucket_ns) for table in rollup.TABLES},
    )
