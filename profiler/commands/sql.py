"""`accelprof sql [RUN] "SELECT ..."`: read-only SQL over one run, live or finished."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from ..errors import UserError


def sql(
    words: Annotated[
        list[str], typer.Argument(metavar='[RUN] "SELECT ..."', help="Run (default last), query.")
    ],
    json: Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Over all runs.")] = False,
) -> None:
    """Ask a run's tables: run, step, host_sample, process, op, finding, ...; views steps, timeline.

    Example: accelprof sql last "SELECT avg(ms), quantile_cont(ms, 0.95) FROM steps"
    """
    if every:
        raise UserError("--all is not supported yet: name one run")
    if len(words) > 2:
        raise UserError('give a run and one query in quotes: accelprof sql last "SELECT ..."')
    from ...storage.library import resolve
    from ...storage.reader import open_run

    with open_run(resolve(words[0] if len(words) == 2 else "last")) as reader:
        columns, rows = reader.table(words[-1])
    if json:
        _print_json(columns, rows)
    elif sys.stdout.isatty():
        _print_table(columns, rows)
    else:
        _print_tabbed(columns, rows)


def _print_json(columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    import msgspec

    body = {"schema": "accelprof.sql/1", "columns": columns, "rows": rows}
    # Integers beyond 64 bits (a sum of BIGINT) are beyond msgspec, too: as floats.
    text = msgspec.json.encode(_narrow(body), enc_hook=str)
    print(text.decode())


def _narrow(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return value if -(1 << 63) <= value < 1 << 64 else float(value)
    if isinstance(value, list | tuple):
        return [_narrow(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _narrow(item) for key, item in value.items()}
    return value


def _print_table(columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold")
    for column in columns:
        table.add_column(Text(column))
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    Console().print(table)


def _print_tabbed(columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    print("\t".join(columns))
    for row in rows:
        print("\t".join(_cell(value) for value in row))


def _cell(value: Any) -> str:
    """One cell in one line; control characters of the job's text cannot reach the terminal."""
    text = "" if value is None else str(value)
    return "".join(c if c.isprintable() else " " for c in text)
