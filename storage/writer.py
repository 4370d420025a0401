"""The one writer of a run file: a thread-safe buffer in front of DuckDB's appender.

Rows are buffered by `append` (cheap, from any thread) and stored by `flush` in one transaction,
so that kill -9 loses at most what came since the last flush. When the disk is full the buffer
holds what it may, the oldest rows go first, and a gap row says how many were lost once there is
space again. Never `executemany`: 900 rows/s against 300,000 rows/s of the appender.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import duckdb

from . import rollup, schema, unlocked
from .buffer import Lost, Pending, Values
from .reader import BadRunFile, RunReader

LOSSES_EVERY_S = 60.0
NEAR = 0.8  # of `max_bytes`: what is old is made coarser
# Small tables that are stored even when `max_bytes` is reached.
_ALWAYS = frozenset({"device", "process", "op", "window", "finding", "event", "gap"})

Row: TypeAlias = Sequence[Any] | Mapping[str, Any]


class RunWriter:
    """Opens or creates the run file at `path` (a `.duckdb` file) and holds its lock until `close`.

    Raises `BadRunFile` for a file that is not ours and `duckdb.Error`/`OSError` when it cannot be
    made. Nothing else raises on trouble with the disk: see `trouble` and `lost`.
    """

    def __init__(self, path: Path, *, max_bytes: int | None = None) -> None:
        self.path = path
        self.trouble: str | None = None  # why the last flush stored nothing
        self.lost: dict[str, Lost] = {}  # by table, over the whole run
        self.full = False  # `max_bytes` was reached
        self._max_bytes = max_bytes
        self._lock = threading.Lock()  # of what waits and what is lost
        self._pending = Pending()
        self._tell_losses_s = 0.0
        self._closed = False
        self._keys: dict[str, tuple[str, ...]] = {}
        self._database_lock = threading.RLock()
        self._place = path  # where the file belongs; `path` where it is written
        try:
            self._connection = schema.open_file(path)
        except duckdb.IOException:
            if unlocked.locks_work(path):
                raise
            self.path = unlocked.local_place(path)
            self._connection = schema.open_file(self.path)
        self._columns = schema.columns(self._connection)
        self._time_index = {
            table: next((i for i, c in enumerate(columns) if c in ("t_ns", "from_ns")), None)
            for table, columns in self._columns.items()
        }
        self._json = schema.json_columns(self._connection)
        with contextlib.suppress(OSError):
            os.chmod(self.path, 0o600)  # noqa: PTH101

    # -- giving ------------------------------------------------------------------------------

    def append(self, table: str, rows: Iterable[Row]) -> None:
        """Buffers rows: values in the schema's column order, or dicts (missing keys are NULL)."""
        ready = [self._row(table, row) for row in rows]
        with self._lock:
            self._pending.append(table, ready)
            self._drop_overflow()

    def update_run(self, **columns: Any) -> None:
        """Sets columns of the one row of `run`."""
        unknown = columns.keys() - set(self._columns["run"])
        if unknown:
            raise ValueError(f"table run has no columns {sorted(unknown)}")
        with self._lock:
            self._pending.run.update(columns)

    def set_meta(self, key: str, value: str) -> None:
        """Sets one entry of `meta`."""
        with self._lock:
            self._pending.meta[key] = value

    def replace(self, table: str, rows: Iterable[Row], *, key: Sequence[str] = ()) -> None:
        """Puts rows in place of those with the same `key` columns; without a key, of all rows."""
        ready = [self._row(table, row) for row in rows]
        with self._lock:
            if not key:
                self._pending.all_of[table] = ready
                self._pending.keyed.pop(table, None)
                return
            self._keys[table] = tuple(key)
            index = [self._columns[table].index(column) for column in key]
            waiting = self._pending.keyed.setdefault(table, {})
            for row in ready:
                waiting[tuple(row[i] for i in index)] = row

    def _row(self, table: str, row: Row) -> Values:
        columns = self._columns.get(table)
        if columns is None:
            raise ValueError(f"no table {table!r}")
        if isinstance(row, Mapping):
            unknown = row.keys() - set(columns)
            if unknown:
                raise ValueError(f"table {table} has no columns {sorted(unknown)}")
            row = [row.get(column) for column in columns]
        elif len(row) != len(columns):
            raise ValueError(f"table {table} has {len(columns)} columns, not {len(row)}")
        if as_json := self._json.get(table):
            row = [_as_json(v) if i in as_json else v for i, v in enumerate(row)]
        return tuple(row)

    # -- storing -----------------------------------------------------------------------------

    def flush(self, *, last: bool = False) -> bool:
        """Stores and commits all that is buffered; False when the database took nothing."""
        with self._database_lock:
            with self._lock:
                taken, self._pending = self._pending, Pending()
            self._apply_limit(taken)
            self._hold_back_losses(taken, last)
            if not taken:
                return True
            try:
                self._transaction(lambda: self._store(taken))
            except (duckdb.Error, OSError) as error:
                self.trouble = str(error).splitlines()[0] if str(error) else type(error).__name__
                with self._lock:
                    self._pending.follow(taken)
                    self._drop_overflow()
                self._reopen_if_dead()
                return False
            self.trouble = None
            return True

    def _hold_back_losses(self, taken: Pending, last: bool) -> None:
        """Losses that go on for hours shall not fill `gap` with a row a second."""
        now_s = time.monotonic()
        if taken.lost and not last and now_s < self._tell_losses_s:
            with self._lock:
                self._pending.follow(Pending(lost=taken.lost))
            taken.lost = {}
        elif taken.lost:
            self._tell_losses_s = now_s + LOSSES_EVERY_S

    def _transaction(self, body: Callable[[], None]) -> None:
        self._connection.execute("BEGIN TRANSACTION")
        try:
            body()
            self._connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(duckdb.Error):  # a failed commit has rolled back itself
                self._connection.execute("ROLLBACK")
            raise

    def _store(self, taken: Pending) -> None:
        if taken.run:
            run = {column: self._run_value(column, value) for column, value in taken.run.items()}
            names = ", ".join(f'"{column}" = ?' for column in run)
            self._connection.execute(f"UPDATE run SET {names}", list(run.values()))
        for key, value in taken.meta.items():
            self._connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [key, value])
        for table, rows in taken.all_of.items():
            self._connection.execute(f'DELETE FROM "{table}"')
            self._append(table, rows)
        for table, by_key in taken.keyed.items():
            where = " AND ".join(f'"{c}" IS NOT DISTINCT FROM ?' for c in self._keys[table])
            for key_values in by_key:
                self._connection.execute(f'DELETE FROM "{table}" WHERE {where}', list(key_values))
            self._append(table, list(by_key.values()))
        for table, appended in taken.rows.items():
            self._append(table, appended)
        self._append("gap", [_gap_row(table, lost) for table, lost in taken.lost.items()])

    def _run_value(self, column: str, value: Any) -> Any:
        index = self._columns["run"].index(column)
        return _mended(_as_json(value) if index in self._json.get("run", ()) else value)

    def _append(self, table: str, rows: Iterable[Values]) -> None:
        if not rows:
            return
        appender = self._connection.appender(table)
        try:
            appender.append_rows(rows)
        except (duckdb.DataError, duckdb.ProgrammingError, TypeError, UnicodeError):
            appender.clear()
            self._append_one_by_one(table, rows, appender)
        appender.flush()

    def _append_one_by_one(
        self, table: str, rows: Iterable[Values], appender: duckdb.Appender
    ) -> None:
        """The slow way, when a row is bad: the bad ones are mended or counted as lost."""
        for row in rows:
            try:
                appender.append_row(*(_mended(value) for value in row))
            except (duckdb.DataError, duckdb.ProgrammingError, TypeError, UnicodeError) as error:
                reason = f"bad value: {str(error).splitlines()[0]}"
                with self._lock:
                    self._count_lost(table, row, reason)

    def _apply_limit(self, taken: Pending) -> None:
        if self._max_bytes is None or not (self.full or self.size_bytes() >= self._max_bytes):
            return
        self.full = True  # for good: a series with holes is worse than one that ends
        for table in [name for name in taken.rows if name not in _ALWAYS]:
            rows = taken.rows.pop(table)
            taken.count -= len(rows)
            with self._lock:
                for row in rows:
                    self._count_lost(table, row, "the run file reached --max-disk")

    # -- long recordings ---------------------------------------------------------------------

    def roll_up(self, now_ns: int, *, forget: bool = False) -> None:
        """Makes old samples coarser (rollup.py), and all but the newest when the file nears its
        limit; `forget`: the oldest go when even that does not do. As `flush`, it never raises."""
        with self._database_lock:
            if self._closed:
                return
            near = self._max_bytes is not None and self.size_bytes() >= NEAR * self._max_bytes
            levels = rollup.TIGHT if near and not forget else rollup.LEVELS
            try:
                self._transaction(lambda: rollup.roll_up(self._connection, now_ns, levels))
                rollup.give_back(self._connection)
                while forget and self._max_bytes and self.size_bytes() >= NEAR * self._max_bytes:
                    before = self.size_bytes()
                    self._transaction(lambda: rollup.drop_oldest(self._connection))
                    rollup.give_back(self._connection)
                    if self.size_bytes() >= before:
                        break  # the room is free inside the file and will be used
            except (duckdb.Error, OSError) as error:
                self.trouble = str(error).splitlines()[0] if str(error) else type(error).__name__
                self._reopen_if_dead()

    def size_bytes(self) -> int:
        """The run file with its write-ahead log."""
        return sum(_size(p) for p in (self.path, self.path.with_name(self.path.name + ".wal")))

    # -- trouble -----------------------------------------------------------------------------

    def _drop_overflow(self) -> None:
        """Makes room in the buffer. The lock is held."""
        for table, row in self._pending.overflow():
            self._count_lost(table, row, self.trouble or "more rows than could be stored")

    def _count_lost(self, table: str, row: Values, reason: str) -> None:
        index = self._time_index[table]
        t_ns = row[index] if index is not None and isinstance(row[index], int) else None
        self.lost.setdefault(table, Lost()).add(t_ns, reason)
        self._pending.lost.setdefault(table, Lost()).add(t_ns, reason)

    def _reopen_if_dead(self) -> None:
        """A fatal error makes DuckDB refuse everything until the file is opened again."""
        with contextlib.suppress(duckdb.Error):
            self._connection.execute("SELECT 1").fetchall()
            return
        with contextlib.suppress(duckdb.Error, OSError, BadRunFile):
            with contextlib.suppress(duckdb.Error):
                self._connection.close()
            self._connection = schema.open_file(self.path)

    # -- reading and the end -----------------------------------------------------------------

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection of its own to the same file, for a reader in this process."""
        with self._database_lock:
            return self._connection.cursor()

    def reader(self) -> RunReader:
        """A reader of all that is stored so far, in this process."""
        self.flush()
        return RunReader.within(self._place.parent, self.cursor)

    def close(self) -> None:
        """Stores the rest and lets go of the file, once. Never raises; see `trouble`."""
        with self._database_lock:
            if self._closed:
                return
            self.flush()
            self.flush(last=True)  # with the losses that the first one found
            self._closed = True
            try:
                self._connection.close()
            except duckdb.Error as error:  # a reader in this process is not done yet
                if self.path != self._place:
                    self.trouble = f"{error}; the run file stays in {self.path}"
                return  # all is committed: whoever opens the file reads its write-ahead log
            try:
                if self.path != self._place:
                    unlocked.put_back(self.path, self._place)
            except OSError as error:
                self.trouble = f"{error}; the run file stays in {self.path}"


def _as_json(value: Any) -> str | None:
    """For a JSON column: dicts and lists become text; text is taken as JSON already.

    Lone surrogates (of a command line that is not UTF-8) are left as they are, for `_mended`: the
    database takes no JSON with an escaped one.
    """
    if isinstance(value, str) and "\\ud" in value:
        with contextlib.suppress(ValueError):
            return json.dumps(json.loads(value), ensure_ascii=False)
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, default=str, allow_nan=False, ensure_ascii=False)


def _mended(value: Any) -> Any:
    """Text that is not UTF-8 (lone surrogates of a file name, a command line) with `?` instead."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    return value


def _gap_row(table: str, lost: Lost) -> Values:
    t_ns = lost.first_ns if lost.first_ns is not None else time.time_ns()
    span = ""
    if lost.first_ns is not None and lost.last_ns is not None:
        span = f" over {(lost.last_ns - lost.first_ns) / 1e9:.1f} s"
    return (t_ns, "storage", table, None, f"{lost.rows} rows lost{span}: {lost.reason}")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
