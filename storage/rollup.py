"""Bounds what long recordings take: full rate for the last hour, then a row a second, then in 10 s.

Rates and shares become means; what is held (memory, temperature, counters) its most; throttle
reasons all that were seen; a list (load by core) and a state stand for the moment or the usual. How
far each table is rolled up stands in `meta`, so that a restarted recorder goes on from there.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import NamedTuple

import duckdb

META_KEY = "rollup"
SECOND_NS = 1_000_000_000


class Level(NamedTuple):
    """Rows older than `after_ns` become one in `bucket_ns`."""

    after_ns: int
    bucket_ns: int


LEVELS = (Level(3600 * SECOND_NS, SECOND_NS), Level(6 * 3600 * SECOND_NS, 10 * SECOND_NS))
# When the file nears its limit: a coarse file that goes on is worth more than one that ends
TIGHT = (Level(60 * SECOND_NS, 10 * SECOND_NS),)
EVERY_S = 300.0
TABLES: dict[str, tuple[str, ...]] = {
    "device_sample": ("device",),
    "host_sample": (),
    "process_sample": ("pid",),
}
_TIMED = (*TABLES, "step", "worker_batch", "stack", "event", "gap")
_MEANS = ("_share", "_per_s", "_hz", "_w", "_1m", "_cores", "cpu_cores")
_NOT_MEANS = ("power_limit_w", "cgroup_cpu_quota_cores")


def roll_up(
    connection: duckdb.DuckDBPyConnection, now_ns: int, levels: Sequence[Level] = LEVELS
) -> None:
    """Rolls up what has grown old, in the caller's transaction."""
    done = _progress(connection)
    for table in TABLES:
        for level in levels:
            name = f"{table}.{level.bucket_ns}"
            until = (now_ns - level.after_ns) // level.bucket_ns * level.bucket_ns
            # A wall clock that was set back makes old times new again
            since = min(done.get(name, 0), until)
            _merge(connection, table, level.bucket_ns, (since, until))
            done[name] = until
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [META_KEY, json.dumps(done)])


def drop_oldest(connection: duckdb.DuckDBPyConnection, part: float = 0.1) -> None:
    """Forgets the oldest `part` of the recorded time."""
    spans = [
        connection.execute(f"SELECT min(t_ns), max(t_ns) FROM {table}").fetchall()[0]
        for table in TABLES
    ]
    known = [(low, high) for low, high in spans if low is not None]
    if not known:
        return
    first, last = min(low for low, _ in known), max(high for _, high in known)
    border = first + round((last - first) * part) + 1
    for table in _TIMED:
        connection.execute(f"DELETE FROM {table} WHERE t_ns < ?", [border])
    connection.execute("DELETE FROM process WHERE ended_ns < ?", [border])


def give_back(connection: duckdb.DuckDBPyConnection) -> None:
    """Lets the file use the room of deleted rows again; readers may be in the way, then later."""
    with contextlib.suppress(duckdb.Error):
        connection.execute("CHECKPOINT")


def _progress(connection: duckdb.DuckDBPyConnection) -> dict[str, int]:
    rows = connection.execute("SELECT value FROM meta WHERE key = ?", [META_KEY]).fetchall()
    try:
        found = json.loads(rows[0][0]) if rows else {}
        return {str(name): int(until) for name, until in found.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def _merge(
    connection: duckdb.DuckDBPyConnection, table: str, bucket_ns: int, span: tuple[int, int]
) -> None:
    where = "WHERE t_ns >= ? AND t_ns < ?"
    ((before,),) = connection.execute(f"SELECT count(*) FROM {table} {where}", span).fetchall()
    if not before:
        return
    coarse = coarser(table, _columns(connection, table), bucket_ns, where)
    connection.execute(f"CREATE OR REPLACE TEMP TABLE rolled AS FROM {coarse} ORDER BY t_ns", span)
    ((after,),) = connection.execute("SELECT count(*) FROM rolled").fetchall()
    if after < before:
        connection.execute(f"DELETE FROM {table} {where}", span)
        connection.execute(f"INSERT INTO {table} SELECT * FROM rolled")
    connection.execute("DROP TABLE rolled")


def coarser(table: str, columns: Sequence[tuple[str, str]], bucket_ns: int, where: str = "") -> str:
    """A subquery: the table's rows with one for each bucket; `columns` are names and types."""
    keys = TABLES[table]
    made = ", ".join(_aggregate(name, kind, keys) for name, kind in columns)
    group = ", ".join((f"t_ns // {bucket_ns}", *keys))
    return f"(SELECT {made} FROM {table} {where} GROUP BY {group})"


def _columns(connection: duckdb.DuckDBPyConnection, table: str) -> list[tuple[str, str]]:
    return connection.execute(
        "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? "
        "AND NOT internal AND database_name = current_database() ORDER BY column_index",
        [table],
    ).fetchall()


def _aggregate(name: str, kind: str, keys: Sequence[str]) -> str:
    if name in keys:
        return name
    if name == "t_ns":
        return "min(t_ns) AS t_ns"
    if kind.endswith("[]"):
        how = f"arg_max({name}, t_ns)"
    elif kind == "VARCHAR":
        how = f"mode({name})"
    elif name.endswith("_bits"):
        how = f"bit_or({name})"
    elif name.endswith(_MEANS) and name not in _NOT_MEANS:
        how = f"avg({name})"
    else:
        how = f"max({name})"
    return f"({how})::{kind} AS {name}"
