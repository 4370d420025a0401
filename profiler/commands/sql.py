"""`accelprof sql [RUN] "SELECT ..."`: read-only SQL over one run or all, live or finished."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Annotated, Any

import typer

from ..errors import UserError


def sql(
    words: Annotated[
        list[str], typer.Argument(metavar='[RUN] "SELECT ..."', help="Run (default last), query.")
    ],
    json: Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Ask every run; its id becomes the first column.")
    ] = False,
) -> None:
    """Ask a run's tables: run, step, host_sample, process, op, finding, ...; views steps, timeline.

    Example: accelprof sql last "SELECT avg(ms), max(ms) FROM steps"
    """
    if len(words) > (1 if every else 2):
        given = 'sql --all "SELECT ..."' if every else 'sql last "SELECT ..."'
        raise UserError(f"give one query in quotes: accelprof {given}")
    from ...storage.library import resolve
    from ...storage.reader import open_run

    if every:
        columns, rows = _of_all(words[0])
    else:
        with open_run(resolve(words[0] if len(words) == 2 else "last")) as reader:
            columns, rows = reader.table(words[-1])
    if json:
        _print_json(columns, rows)
    elif sys.stdout.isatty():
        _print_table(columns, rows)
    else:
        _print_tabbed(columns, rows)


def _of_all(query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """One query asked of each run, oldest first; runs that cannot be read are told on stderr."""
    from ...storage.library import home, list_runs
    from ...storage.reader import BadRunFile, open_run

    columns: list[str] = []
    found: list[tuple[Any, ...]] = []
    for folder in reversed(list_runs()):
        try:
            with open_run(folder) as reader:
                names, rows = reader.table(query)
        except BadRunFile as error:
            print(f"accelprof: left out: {_cell(error)}", file=sys.stderr)
            continue
        columns = columns or ["run_id", *names]
        found += [(folder.name, *row) for row in rows]
    if not columns:
        raise UserError(f"no run in {home() / 'runs'} can be asked", status=3)
    return columns, found


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
    for at, column in enumerate(columns):
        numbers = any(_is_number(row[at]) for row in rows)
        table.add_column(Text(column), justify="right" if numbers else "left")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    Console().print(table)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _print_tabbed(columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    print("\t".join(columns))
    for row in rows:
        print("\t".join(_cell(value) for value in row))


def _cell(value: Any) -> str:
    """One cell in one line; control characters of the job's text cannot reach the terminal."""
    text = "" if value is None else str(value)
    return "".join(c if c.isprintable() else " " for c in text)
