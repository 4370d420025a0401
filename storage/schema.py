"""Opens a run file for its writer: makes its tables, or adds to an older file what it lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

from .reader import KNOWN_VERSION, BadRunFile, check_version, explain

SCHEMA = Path(__file__).with_name("schema.sql")
# Measured: 600,000 steps stored at a peak RSS of 105 MB (70 MB of it DuckDB's code and Python).
_CONFIG: dict[str, Any] = {
    "threads": 1,
    "memory_limit": "40MB",
    "enable_external_access": False,
}


def open_file(path: Path) -> duckdb.DuckDBPyConnection:
    fresh = not path.exists()
    try:
        connection = duckdb.connect(str(path), config=_CONFIG)
    except duckdb.Error as error:
        if fresh or "lock" in str(error):
            raise
        raise BadRunFile(explain(path, error)) from None
    try:
        if not fresh:
            check_version(connection, path, allow_empty=True)
        connection.execute("SET lock_configuration = true")
        if not fresh:
            _add_columns(connection)
        connection.execute(SCHEMA.read_text())
        connection.execute(
            "INSERT OR IGNORE INTO meta VALUES ('schema_version', ?), ('created_by', 'accelprof')",
            [str(KNOWN_VERSION)],
        )
        connection.execute(
            "INSERT INTO run (state) SELECT 'running' WHERE NOT EXISTS (FROM run)",
        )
    except BaseException:
        connection.close()
        raise
    return connection


def _add_columns(connection: duckdb.DuckDBPyConnection) -> None:
    """A file of an older accelprof that is written on (the daemon's) gets what has come since."""
    listed = "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal"
    there = {row[:2] for row in connection.execute(listed).fetchall()}
    tables = set(connection.execute("SELECT table_name FROM duckdb_tables()").fetchall())
    with duckdb.connect(":memory:") as model:
        model.execute(SCHEMA.read_text())
        for table, column, kind in model.execute(listed).fetchall():
            if (table,) in tables and (table, column) not in there:
                connection.execute(f'ALTER TABLE "{table}" ADD COLUMN "{column}" {kind}')


def columns(connection: duckdb.DuckDBPyConnection) -> dict[str, tuple[str, ...]]:
    found = connection.execute(
        "SELECT c.table_name, list(c.column_name ORDER BY c.column_index) FROM duckdb_columns() c "
        "JOIN duckdb_tables() t USING (table_oid) WHERE NOT c.internal GROUP BY ALL"
    ).fetchall()
    return {table: tuple(columns) for table, columns in found}


def json_columns(connection: duckdb.DuckDBPyConnection) -> dict[str, frozenset[int]]:
    """Per table, the places of its JSON columns."""
    found = connection.execute(
        "SELECT table_name, list(column_index - 1) FROM duckdb_columns() "
        "WHERE data_type = 'JSON' AND NOT internal GROUP BY ALL"
    ).fetchall()
    return {table: frozenset(places) for table, places in found}
