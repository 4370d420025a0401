"""Reading a run, finished or live, through one class.

A finished run's file is opened read-only. While its agent lives, the agent holds DuckDB's lock and
nobody else can open the file, not even to read, so the same queries go over its socket (live.py).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import duckdb

from . import unlocked
from .library import RUN_FILE, require_utf8
from .live import FrameError, LiveClient, LiveError, select

KNOWN_VERSION = 1
WAIT_S = 3.0  # for an agent that is just starting or just letting go of the file
_CONFIG: dict[str, Any] = {"enable_external_access": False, "threads": 2, "memory_limit": "1GB"}

_Result: TypeAlias = tuple[list[str], list[tuple[Any, ...]]]


class BadRunFile(Exception):
    """Not a run, damaged, of a newer accelprof, or live and not answering. One line."""


class QueryError(Exception):
    """The query is wrong, or not a SELECT."""


class RunReader:
    """SELECTs over one run. Use `open_run`; in the agent itself `RunWriter.reader`."""

    def __init__(self, folder: Path, file: Path, source: _Source) -> None:
        self.folder = folder
        self._file = file
        self._source = source

    @classmethod
    def within(cls, folder: Path, cursor: Callable[[], duckdb.DuckDBPyConnection]) -> RunReader:
        """A reader beside the writer in one process."""
        return cls(folder, folder / RUN_FILE, _Direct(cursor(), live=True))

    @property
    def live(self) -> bool:
        """The run's agent still writes; more may come with the next query."""
        return self._source.live

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of one SELECT."""
        return self._select(sql, params)[1]

    def dicts(self, sql: str, params: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """The rows of one SELECT as dicts by column name."""
        columns, rows = self._select(sql, params)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def table(self, sql: str, params: Sequence[Any] = ()) -> _Result:
        """The column names and the rows of one SELECT."""
        return self._select(sql, params)

    def _select(self, sql: str, params: Sequence[Any]) -> _Result:
        try:
            return self._source.select(sql, params)
        except TimeoutError:
            raise BadRunFile(_silent(self.folder)) from None
        except (OSError, FrameError) as error:
            if not isinstance(self._source, _Live):
                raise BadRunFile(f"{self._file}: {error}") from None
        # The agent ended (the file is free now), or closed an idle connection: once more.
        self._source.close()
        self._source = _connect(self.folder, self._file)
        try:
            return self._source.select(sql, params)
        except (OSError, FrameError) as error:
            raise BadRunFile(f"{self.folder.name}: {error}") from None

    def close(self) -> None:
        """Lets go of the file or the connection."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_run(path: Path) -> RunReader:
    """Opens a run by its folder or its `.duckdb` file. Raises `BadRunFile`."""
    try:
        require_utf8(path)
        file = path / RUN_FILE if path.is_dir() else path
        if not file.exists():
            raise BadRunFile(f"{path}: holds no {RUN_FILE}" if path.is_dir() else f"no file {path}")
    except OSError as error:
        raise BadRunFile(f"{path}: {error.strerror}") from None
    return RunReader(file.parent, file, _connect(file.parent, file))


def _connect(folder: Path, file: Path) -> _Source:
    """The file itself when it is free, else its agent; waits a little for one of them."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return _Direct(_open_file(file), live=False)
        except _Locked as error:
            holder = str(error)
        try:
            return _Live(LiveClient(folder))
        except OSError:
            # No agent there (yet, or any more)
            if file.stat().st_size and not unlocked.locks_work(file):
                with unlocked.local_copy(file) as copy:
                    return _Direct(_open_file(copy), live=False)
        if time.monotonic() > deadline:
            raise BadRunFile(f"{file}: held by {holder}, which does not answer readers")
        time.sleep(0.05)


class _Locked(Exception):
    """A writer holds the file; the message says who."""


def _open_file(file: Path) -> duckdb.DuckDBPyConnection:
    try:
        connection = duckdb.connect(str(file), read_only=True, config=_CONFIG)
    except duckdb.Error as error:
        if "Could not set lock" in str(error):
            raise _Locked(_holder(str(error))) from None
        if "different configuration" in str(error):  # a writer in this very process
            raise _Locked(f"this process (PID {os.getpid()})") from None
        raise BadRunFile(explain(file, error)) from None
    try:
        check_version(connection, file)
        return connection
    except BaseException:
        connection.close()
        raise


def _holder(message: str) -> str:
    _, found, rest = message.partition("(PID ")
    return f"process {rest.partition(')')[0]}" if found else "another process"


def check_version(
    connection: duckdb.DuckDBPyConnection, file: Path, *, allow_empty: bool = False
) -> None:
    """Raises `BadRunFile` for a database that is not a run, or of a newer accelprof."""
    try:
        if allow_empty and not connection.execute("FROM duckdb_tables()").fetchall():
            return
        found = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
    except duckdb.CatalogException:
        found = None
    except duckdb.BinderException:
        found = None
    except duckdb.Error as error:
        raise BadRunFile(explain(file, error)) from None
    if found is None or not str(found[0]).isdigit():
        raise BadRunFile(f"{file}: a DuckDB file, but not a run of accelprof")
    if int(found[0]) > KNOWN_VERSION:
        raise BadRunFile(
            f"{file}: written by a newer accelprof (schema {found[0]}, this one knows up to "
            f"{KNOWN_VERSION}): update accelprof"
        )


def explain(file: Path, error: Exception) -> str:
    """One line for what DuckDB said about a file."""
    text = str(error)
    if "not a valid DuckDB" in text:
        return f"{file}: not a run file (no DuckDB database)"
    if "orrupt" in text or "checksum" in text:
        return f"{file}: damaged ({text.splitlines()[0][:120]})"
    return f"{file}: {text.splitlines()[0][:200]}"


def _silent(folder: Path) -> str:
    return f"{folder.name}: its agent holds the file and does not answer within the time"


# -- the two sources ---------------------------------------------------------------------------


class _Direct:
    """The file, opened in this process."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, *, live: bool) -> None:
        self._connection = connection
        self.live = live

    def select(self, sql: str, params: Sequence[Any]) -> _Result:
        try:
            columns, result = select(self._connection, sql, list(params))
            return columns, result.fetchall()
        except LiveError as error:
            raise _query_error(error) from None
        except duckdb.Error as error:
            raise _query_or_file_error(error) from None
        finally:
            with contextlib.suppress(duckdb.Error):
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()


class _Live:
    """The run's agent."""

    live = True

    def __init__(self, client: LiveClient) -> None:
        self._client = client

    def select(self, sql: str, params: Sequence[Any]) -> _Result:
        try:
            return self._client.select(sql, params)
        except LiveError as error:
            raise _query_error(error) from None

    def close(self) -> None:
        self._client.close()


_Source: TypeAlias = _Direct | _Live


def _query_or_file_error(error: duckdb.Error) -> Exception:
    """A block that fails its checksum shows only when it is read."""
    if isinstance(error, duckdb.IOException | duckdb.FatalException | duckdb.InternalException):
        return BadRunFile(str(error).splitlines()[0])
    if "orrupt" in str(error):
        return BadRunFile(str(error).splitlines()[0])
    return _query_error(error)


def _query_error(error: Exception) -> QueryError:
    """DuckDB's message without the query's line, which the user has before them."""
    text = str(error).split("\nLINE ")[0].strip()
    if 'at or near "window"' in text:
        text += ': quote the name of the table, "window", which is a word of SQL, too'
    return QueryError(text)
