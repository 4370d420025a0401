"""`accelprof compare RUN RUN [RUN...]`: runs side by side."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UserError
from .opening import examined, opened

if TYPE_CHECKING:
    from ..comparison.model import Comparison
    from ..comparison.sides import Side

MOST = 8
FORMATS = ("txt", "md", "html", "json")
_SUFFIXES = {".markdown": "md", ".htm": "html"}


def compare(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN RUN [RUN...]", help="Two to eight; first is base.")
    ],
    table: Annotated[
        bool, typer.Option("--table", help="The eight measures to choose an accelerator by, too.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")] = False,
    format: Annotated[
        str | None,
        typer.Option("--format", help=f"{', '.join(FORMATS)} [default: by -o, else txt]"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write to FILE instead of stdout.")
    ] = None,
) -> None:
    """What changed between runs, what it did, and whether it is more than noise.

    Example: accelprof compare baseline last
    """
    if not 2 <= len(runs) <= MOST:
        raise UserError(f"compare takes two to {MOST} runs, {len(runs)} given")
    chosen = _format(format, json, output)
    from ..comparison.compare import compare as compared

    text = _writers()[chosen](compared([opened_side(run) for run in runs], table=table))
    if output is None:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="replace")
        sys.stdout.write(text)
    else:
        write(output, text)


def opened_side(run: str) -> Side:
    """A run ready for comparison."""
    from ..comparison.sides import side

    with opened(run) as reader:
        return side(reader, *examined(reader))


def write(path: Path, text: str) -> None:
    """The text into a file. Raises `UserError` when that cannot be."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None
    print(f"accelprof: wrote {path}", file=sys.stderr)


def _format(given: str | None, json: bool, output: Path | None) -> str:
    if json and given not in (None, "json"):
        raise UserError(f"--json and --format {given} exclude each other")
    if json:
        return "json"
    suffix = output.suffix.lower() if output else ".txt"
    name = (given or _SUFFIXES.get(suffix, suffix.removeprefix("."))).lower()
    if name not in FORMATS:
        raise UserError(
            f"cannot write a comparison as {name!r}: the formats are {', '.join(FORMATS)}"
        )
    return name


def _writers() -> dict[str, Callable[[Comparison], str]]:
    from ..comparison.document import document, shares
    from ..reports import html, markdown, text

    return {
        "txt": lambda found: text.write(document(found)),
        "md": lambda found: markdown.write(document(found)),
        "html": lambda found: html.write("Comparison", document(found), shares(found)),
        "json": _json,
    }


def _json(found: Comparison) -> str:
    import msgspec

    fields = msgspec.to_builtins(found)
    body = {"schema": fields.pop("schema"), **fields}
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode() + "\n"
