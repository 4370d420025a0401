"""`accelprof fleet LAKE`: what the accelerator-hours of many runs were lost to."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ..errors import UserError


def fleet(
    lake: Annotated[str, typer.Argument(help="Folder or URL that `export --parquet` writes to.")],
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="spark://HOST:7077, clickhouse://HOST, trino://HOST/CATALOG/SCHEMA; else DuckDB.",
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="D", help="Runs started since: 2026-11-30, 7d, 4w.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="user|host|tag|name", help="Losses by group.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")] = False,
) -> None:
    """Over many runs: accelerator-hours, what they were lost to, the runs to mend first.

    Example: accelprof fleet s3://team/lake --since 4w --by user
    """
    from ..fleet import answer, engines
    from ..fleet.queries import GROUPS
    from ..moments import moment

    if by is not None and by not in GROUPS:
        raise UserError(f"--by {by!r}: there are {', '.join(GROUPS)}")
    since_s = int(moment("--since", since).timestamp()) if since else None
    opened = engines.engine(engine, lake)
    try:
        found = answer.ask(opened, lake, by=by, since_s=since_s)
    finally:
        opened.close()
    if json:
        _print_json(found)
    else:
        from ..fleet.document import document
        from ..reports import text

        sys.stdout.write(text.write(document(found)))


def _print_json(found: object) -> None:
    import msgspec

    body = {"schema": "accelprof.fleet/1", **msgspec.to_builtins(found)}
    print(msgspec.json.format(msgspec.json.encode(body), indent=2).decode())
