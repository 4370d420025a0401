"""A run's tables as Parquet or CSV: DIR/TABLE/run=RUN_ID/node=HOST/data.parquet.

The partitions are Hive's, so that one folder of many runs is one data set to DuckDB, Spark,
ClickHouse or Trino; writing a run again replaces its files. A run that is being recorded is read
through its agent. The table `summary` has one row a run: what `accelprof fleet` asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb

from ...storage.reader import RunReader
from ..errors import UserError
from ..fleet import row as summary
from .chunks import quoted, rows_of, tables
from .files import whole
from .store import writing

_OPTIONS = {"parquet": "FORMAT parquet, COMPRESSION zstd", "csv": "FORMAT csv, HEADER true"}
_SCHEMA = Path(__file__).parents[2] / "storage" / "schema.sql"


def write(reader: RunReader, place: str, kind: str, summed: Mapping[str, Any] | None = None) -> int:
    """Writes every table to a folder or an object store's URL, and the row `summed`; how many.

    `kind`: parquet or csv.
    """
    run_id, host = _identity(reader)
    part = Path(f"run={_part(run_id)}") / f"node={_part(host)}" / f"data.{kind}"
    found = sorted(tables(reader))
    with writing(place) as folder, duckdb.connect() as copy:
        copy.execute("SET memory_limit = '1GB'; SET threads = 2")
        copy.execute(_SCHEMA.read_text())
        for table in found:
            _fill(copy, reader, table)
            _copy(copy, table, folder / table / part, kind)
        if summed is not None:
            columns = ", ".join(f"{quoted(name)} {sql}" for name, sql in summary.COLUMNS.items())
            copy.execute(f"CREATE TABLE {summary.TABLE} ({columns})")
            appender = copy.appender(summary.TABLE)
            appender.append_row(*(summed[name] for name in summary.COLUMNS))
            appender.flush()
            _copy(copy, summary.TABLE, folder / summary.TABLE / part, kind)
    return len(found)


def _copy(copy: duckdb.DuckDBPyConnection, table: str, path: Path, kind: str) -> None:
    with whole(path) as draft:
        try:
            copy.execute(f"COPY {quoted(table)} TO {_literal(str(draft))} ({_OPTIONS[kind]})")
        except duckdb.Error as error:
            raise UserError(f"cannot write {path}: {str(error).splitlines()[0]}") from None
    copy.execute(f"DROP TABLE {quoted(table)} CASCADE")


def _identity(reader: RunReader) -> tuple[str, str]:
    rows = reader.rows("SELECT id, host FROM run LIMIT 1")
    run_id, host = rows[0] if rows else (None, None)
    return str(run_id or reader.folder.name), str(host or "unknown")


def _part(text: str) -> str:
    """As Hive writes a value into a path."""
    return quote(text, safe="") or "__HIVE_DEFAULT_PARTITION__"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _fill(copy: duckdb.DuckDBPyConnection, reader: RunReader, table: str) -> None:
    """The run's rows in a table of today's schema: columns that its file has not are NULL."""
    ours = [row[0] for row in copy.execute(f"SELECT column_name FROM (DESCRIBE {quoted(table)})")
            .fetchall()]  # fmt: skip
    theirs = tables(reader)[table]
    shared = [name for name in ours if name in theirs]
    appender = copy.appender(table)
    for rows in rows_of(reader, table, shared):
        if shared == ours:
            appender.append_rows(rows)
            continue
        found = (dict(zip(shared, row, strict=True)) for row in rows)
        appender.append_rows([tuple(row.get(name) for name in ours) for row in found])
    appender.flush()
