"""Where the questions are answered: DuckDB here, or the user's Spark, ClickHouse or Trino by URL.

An engine makes the table `summary` of the lake known to itself and answers SQL with rows.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import duckdb

from ..errors import UserError
from ..exports.store import files_below, filesystem, is_remote, local
from .row import ASKED, TABLE

_NAMES = ", ".join(f'"{name}"' for name in ASKED)
# A lake is many small files and its rows are few: listed and shuffled by few tasks.
_SPARK_TASKS = 8
_SPARK = {
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": 64,
    "spark.sql.shuffle.partitions": _SPARK_TASKS,
}


class Engine(Protocol):
    """`dialect` is a key of queries; `label` says what answered, with its version."""

    dialect: str
    label: str

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The answer to one SELECT."""

    def close(self) -> None:
        """Ends what was opened."""


def engine(url: str | None, lake: str) -> Engine:
    """The engine of a URL; DuckDB without one. Raises `UserError`."""
    try:
        at = urlsplit(url or "duckdb://")
        scheme = at.scheme if at.port != 0 else ""
    except ValueError:  # brackets, or a port that is none
        scheme = ""
    if scheme not in ENGINES:
        known = "spark://HOST:PORT, clickhouse://HOST:8123, trino://HOST/CATALOG/SCHEMA"
        raise UserError(f"--engine {url!r}: there are {known}; without it DuckDB answers")
    return ENGINES[scheme](url or "", lake)


def _client(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UserError(f"--engine needs the package {package}: pip install {package}") from None


def _place(lake: str) -> str:
    """The lake as another process finds it."""
    return (lake if is_remote(lake) else str(local(lake).absolute())).rstrip("/")


def _files(lake: str) -> list[str]:
    found = files_below(lake, TABLE, ".parquet")
    if not found:
        raise UserError(
            f"{lake}: no runs there; `accelprof export RUN --parquet {lake}` puts one in", status=3
        )
    return found


class DuckDB:
    """In this process; object stores through fsspec."""

    dialect = "duckdb"

    def __init__(self, url: str, lake: str) -> None:
        self.label = f"duckdb {duckdb.__version__}"
        files = _files(lake)
        # Half the CPU time: 0.6 s for 2,000 files of a run instead of 1.4 s.
        self._connection = duckdb.connect(config={"preserve_insertion_order": False})
        if is_remote(lake):
            self._connection.register_filesystem(filesystem(lake))
        try:
            # Read once: a lake is many small files, and every question needs all of them.
            self._connection.execute(
                f"CREATE TABLE {TABLE} AS SELECT {_NAMES} FROM read_parquet(?, "
                "hive_partitioning = false)",
                [files],
            )
        except duckdb.Error as error:
            raise UserError(f"{lake}: {str(error).splitlines()[0][:300]}") from None

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql).fetchall()

    def close(self) -> None:
        self._connection.close()


class Spark:
    """`spark://HOST:PORT`, `sc://HOST` (Spark Connect), `spark://local` for one of this machine."""

    dialect = "pyspark"

    def __init__(self, url: str, lake: str) -> None:
        sql = _client("pyspark.sql", "pyspark")
        builder = sql.SparkSession.builder.appName("accelprof fleet")
        if url.startswith("sc:"):
            builder = builder.remote(url)
        else:
            here = urlsplit(url).hostname == "local"
            builder = builder.master("local[*]" if here else url)
            builder = builder.config("spark.ui.enabled", "false")
        try:
            self._session = builder.getOrCreate()
            self.label = f"spark {self._session.version}"
            folder = f"{_place(lake)}/{TABLE}"
            for key, value in _SPARK.items():
                self._session.conf.set(key, value)
            frame = self._session.read.schema(_spark_schema()).parquet(folder)
            frame.repartition(_SPARK_TASKS).cache().createOrReplaceTempView(TABLE)
        except Exception as error:
            raise UserError(f"Spark at {url}: {_first(error)}") from None

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._session.sql(sql).collect()]

    def close(self) -> None:
        self._session.stop()


def _spark_schema() -> str:
    types = {"VARCHAR": "STRING", "VARCHAR[]": "ARRAY<STRING>"}
    return ", ".join(f"`{name}` {types.get(sql, sql)}" for name, sql in ASKED.items())


class ClickHouse:
    """`clickhouse://USER:PASSWORD@HOST:8123/DB`; the server reads the lake itself."""

    dialect = "clickhouse"

    def __init__(self, url: str, lake: str) -> None:
        client, at = _client("clickhouse_connect", "clickhouse-connect"), urlsplit(url)
        try:
            self._client = client.get_client(
                host=at.hostname or "localhost", port=at.port or 8123,
                username=unquote(at.username or "default"), password=unquote(at.password or ""),
                database=at.path.strip("/") or "default", session_id="accelprof-fleet",
            )  # fmt: skip
            self.label = f"clickhouse {self._client.server_version}"
            self._client.command(_clickhouse_table(lake, temporary=True))
        except Exception as error:
            raise UserError(f"ClickHouse at {at.hostname}: {_first(error)}") from None

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._client.query(sql).result_rows]

    def close(self) -> None:
        self._client.close()


class ChDB:
    """`chdb://`: ClickHouse within this process."""

    dialect = "clickhouse"

    def __init__(self, url: str, lake: str) -> None:
        chdb = _client("chdb", "chdb")
        session = _client("chdb.session", "chdb")
        self.label = f"chdb {chdb.__version__}"
        _files(lake)
        self._session = session.Session()
        try:
            self._session.query(_clickhouse_table(lake, temporary=False))
        except Exception as error:
            raise UserError(f"chdb: {_first(error)}") from None

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        import msgspec

        settings = "SETTINGS output_format_json_quote_64bit_integers = 0"
        text = self._session.query(f"{sql} {settings}", "JSONCompactEachRow").bytes()
        return [tuple(msgspec.json.decode(line)) for line in text.splitlines()]

    def close(self) -> None:
        self._session.close()


def _clickhouse_table(lake: str, *, temporary: bool) -> str:
    """A table in memory out of the lake's files."""
    place = f"{_place(lake)}/{TABLE}/**/*.parquet".replace("\\", "\\\\").replace("'", "\\'")
    reader = "url" if place.startswith("http") else "s3" if is_remote(lake) else "file"
    kind = "TEMPORARY TABLE" if temporary else "TABLE"
    types = {"VARCHAR": "Nullable(String)", "VARCHAR[]": "Array(String)",
             "BIGINT": "Nullable(Int64)"}  # fmt: skip
    schema = ", ".join(f"`{name}` {types[sql]}" for name, sql in ASKED.items())
    source = f"{reader}('{place}', 'Parquet', '{schema}')"
    return f"CREATE {kind} {TABLE} ENGINE = Memory AS SELECT {_NAMES} FROM {source}"


class Trino:
    """`trino://USER@HOST:8080/CATALOG/SCHEMA`, where `summary` is a table over the lake."""

    dialect = "trino"

    def __init__(self, url: str, lake: str) -> None:
        dbapi, at = _client("trino.dbapi", "trino"), urlsplit(url)
        catalog, _, schema = at.path.strip("/").partition("/")
        self.label = "trino"
        self._connection = dbapi.connect(
            host=at.hostname, port=at.port or 8080, user=unquote(at.username or "accelprof"),
            catalog=catalog, schema=schema or "default",
        )  # fmt: skip

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        cursor = self._connection.cursor()
        try:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()]
        except Exception as error:
            raise UserError(f"Trino: {_first(error)}") from None

    def close(self) -> None:
        self._connection.close()


def _first(error: Exception) -> str:
    lines: Sequence[str] = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:300]


ENGINES: dict[str, Callable[[str, str], Engine]] = {
    "duckdb": DuckDB, "spark": Spark, "sc": Spark, "clickhouse": ClickHouse, "chdb": ChDB,
    "trino": Trino,
}  # fmt: skip
