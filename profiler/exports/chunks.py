"""Whole tables of a run in pieces: a live run answers with bounded frames, and memory is ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...storage.reader import RunReader

ROWS = 50_000


def tables(reader: RunReader) -> dict[str, list[str]]:
    """The run's own tables with their columns."""
    rows = reader.rows(
        "SELECT c.table_name, c.column_name FROM duckdb_columns() c JOIN duckdb_tables() t "
        "ON t.table_oid = c.table_oid AND t.database_name = c.database_name "
        "WHERE NOT t.internal AND t.schema_name = 'main' ORDER BY c.table_name, c.column_index"
    )
    found: dict[str, list[str]] = {}
    for table, column in rows:
        found.setdefault(table, []).append(column)
    return found


def rows_of(
    reader: RunReader, table: str, columns: Sequence[str]
) -> Iterator[list[tuple[Any, ...]]]:
    """All rows of a table, ROWS at a time, in the order in which they were written."""
    names = ", ".join(quoted(column) for column in columns)
    last = reader.rows(f"SELECT max(rowid) FROM {quoted(table)}")[0][0]
    for start in range(0, -1 if last is None else last + 1, ROWS):
        yield reader.rows(
            f"SELECT {names} FROM {quoted(table)} WHERE rowid >= ? AND rowid < ? ORDER BY rowid",
            (start, start + ROWS),
        )


def quoted(name: str) -> str:
    """A name as SQL."""
    return '"' + name.replace('"', '""') + '"'
