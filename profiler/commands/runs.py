"""`accelprof runs`: the library of runs: which there are, their tags and notes, taking one away."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, get_args

import msgspec
import typer

from ...storage import editing, library
from ..errors import UserError
from ..moments import moment
from ..report import Bottleneck
from ..reports import content, figures, phases
from ..reports.paint import Paint, wants_colour
from ..reports.plain import align, clean, width
from ..runs import Row, Wanted, find

_RUNS = Annotated[list[str], typer.Argument(metavar="RUN", help="Id, unique prefix, name.")]
app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.callback(invoke_without_command=True)
def runs(  # noqa: PLR0917 - typer reads the options from the signature
    context: typer.Context,
    tag: Annotated[
        list[str] | None, typer.Option(metavar="K[=V]", help="With this tag; may be repeated.")
    ] = None,
    verdict: Annotated[
        str | None, typer.Option(metavar="BOTTLENECK", help="input-bound, memory-bound, ...")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="D", help="Started since: 2026-11-30, 12h, 7d, 4w.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="D", help="Started up to: 2026-11-30, 12h, 7d, 4w.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Of this user.")] = None,
    name: Annotated[str | None, typer.Option(help="Of this name; * and ? as in a shell.")] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")] = False,
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", min=1, help="Only the newest N runs.")
    ] = None,
) -> None:
    """List the recorded runs, newest first; tag them, note something, take them away.

    Example: accelprof runs --since 7d --verdict input-bound --tag team=vision
    """
    if context.invoked_subcommand:
        return
    wanted = Wanted(
        tags=dict(_condition(text) for text in tag or ()),
        verdict=_bottleneck(verdict) if verdict else None,
        since=moment("--since", since) if since else None,
        until=moment("--until", until) if until else None,
        user=user,
        name=name,
    )
    folders = library.list_runs()
    found = find(folders, wanted, limit)
    if json:
        body = {"schema": "accelprof.runs/1", "runs": found}
        print(msgspec.json.format(msgspec.json.encode(body), indent=2).decode())
    elif found:
        room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print(table(found, time.time(), Paint(wants_colour(sys.stdout)), room))
    elif not folders:
        where = library.home() / "runs"
        _say(f"no runs in {where} yet: accelprof run COMMAND")
    else:
        _say(f"none of {figures.count(len(folders), 'run')} fits")


def _condition(text: str) -> tuple[str, str | None]:
    key, given, value = text.partition("=")
    if not key:
        raise UserError(f"--tag {text!r}: write KEY, or KEY=VALUE")
    return key, value if given else None


def _bottleneck(text: str) -> str:
    known = get_args(Bottleneck)
    for one in known:
        if text.lower() in (one, one.removesuffix("-bound")):
            return str(one)
    raise UserError(f"--verdict {text!r}: there are {', '.join(known)}")


@app.command()
def rm(
    run: _RUNS,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete runs with all that was recorded. Refused for a run that is being recorded.

    Example: accelprof runs rm 20261130-101640-resnet-ab12
    """
    folders = list(dict.fromkeys(_folder(text) for text in run))
    with _edits():
        for folder in folders:
            editing.refuse_foreign(folder)
            editing.refuse_live(folder)
    if not yes:
        _ask(folders)
    for folder in folders:
        with _edits():
            editing.remove(folder)
        _say(f"deleted {folder.name}")


def _folder(text: str) -> Path:
    found = library.resolve(text)
    # A folder of runs means its newest to every other command: too little said for this one.
    if found.name != text.rstrip("/") and Path(text).is_dir() and Path(text).absolute() != found:
        raise UserError(f"{text}: a folder of runs; name the run to delete")
    return found


def _ask(folders: list[Path]) -> None:
    if not sys.stdin.isatty():
        raise UserError("there is nobody to ask: say --yes to delete")
    for folder in folders:
        print(f"{folder.name}  {figures.size(editing.size_bytes(folder))}", file=sys.stderr)
    typer.confirm(f"Delete {figures.count(len(folders), 'run')}?", abort=True, err=True)


@app.command()
def tag(
    words: Annotated[list[str], typer.Argument(metavar="RUN... K=V...", help="Runs, then tags.")],
    remove: Annotated[
        list[str] | None, typer.Option(metavar="K", help="Take a tag away; may be repeated.")
    ] = None,
) -> None:
    """Set or take away tags of recorded runs.

    Example: accelprof runs tag last team=vision keep=yes --remove draft
    """
    names = [word for word in words if "=" not in word]
    changes: dict[str, str | None] = dict.fromkeys(remove or ())
    changes |= dict(_assignment(word) for word in words if "=" in word)
    if not names or not changes:
        raise UserError("say which RUN and what: accelprof runs tag RUN KEY=VALUE")
    for folder in [library.resolve(text) for text in names]:
        with _edits():
            tags = editing.set_tags(folder, changes)
        _say(f"{folder.name}: {_tags(tags) or 'no tags'}")


def _assignment(text: str) -> tuple[str, str]:
    key, given, value = text.partition("=")
    if not key or not given:
        raise UserError(f"tag {text!r}: write KEY=VALUE")
    return key, value


@app.command()
def note(
    run: Annotated[str, typer.Argument(help="Id, unique prefix, name, 'last' or path.")],
    text: Annotated[str, typer.Argument(help="The note; empty takes it away.")],
) -> None:
    """Write a note into a recorded run; reports show it.

    Example: accelprof runs note last "before the new data loader"
    """
    folder = library.resolve(run)
    with _edits():
        editing.set_note(folder, text.strip() or None)
    _say(f"{folder.name}: {'noted' if text.strip() else 'no note'}")


@contextmanager
def _edits() -> Iterator[None]:
    try:
        yield
    except editing.NotEditable as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"cannot change {error.filename}: {error.strerror}") from None


def _say(message: str) -> None:
    print(f"accelprof: {message}", file=sys.stderr)


# -- for people --------------------------------------------------------------------------------

_HEAD = ("RUN", "STATE", "WHEN", "WALL", "STEPS", "SAMPLES/S", "VERDICT", "SURE", "TAGS")
_RIGHT = (3, 4, 5)
_VERDICT, _TAGS = 6, 8
_GIVES_WAY = (4, 7, 5, 3, 2)  # columns that a narrow terminal goes without
_MOST_OF_TAGS, _LEAST_OF_TAGS = 40, 10  # cells
_GAP = "  "


def table(rows: list[Row], now_s: float, paint: Paint, room: int | None = None) -> str:
    """The runs as aligned columns within `room` cells; ids are whole, for copying."""
    texts = [_HEAD, *(_texts(row, now_s) for row in rows)]
    widths = [max(width(line[at]) for line in texts) for at in range(len(_HEAD))]
    shown = _that_fit(widths, room, tags=any(row.tags for row in rows))
    lines = []
    for at, line in enumerate(texts):
        cells = [align(line[c], widths[c], right=c in _RIGHT) for c in shown]
        share = phases.SHARE_OF_BOTTLENECK.get(rows[at - 1].bottleneck or "") if at else None
        if share:
            verdict = line[_VERDICT]
            place = shown.index(_VERDICT)
            cells[place] = paint.chip(verdict, share) + cells[place][len(verdict) :]
        text = _GAP.join(cells).rstrip()
        lines.append(text if at else paint.dim(text))
    return "\n".join(lines)


def _that_fit(widths: list[int], room: int | None, *, tags: bool) -> list[int]:
    """Columns by number; the one of tags gets what is left of the room."""
    shown = [at for at in range(len(widths)) if at != _TAGS]
    most = _MOST_OF_TAGS
    if room is not None:
        for at in _GIVES_WAY:
            if _whole(widths, shown) <= room:
                break
            shown.remove(at)
        most = min(most, room - _whole(widths, shown) - len(_GAP))
    if tags and most >= _LEAST_OF_TAGS:
        widths[_TAGS] = min(widths[_TAGS], most)
        shown.append(_TAGS)
    return shown


def _whole(widths: list[int], shown: list[int]) -> int:
    return sum(widths[at] for at in shown) + len(_GAP) * (len(shown) - 1)


def _texts(row: Row, now_s: float) -> tuple[str, ...]:
    return (
        clean(row.id, 80),
        content.state(row.state, row.exit_status),
        _when(row.started_at, now_s),
        figures.seconds(row.wall_s),
        figures.count(row.steps),
        figures.number(row.samples_per_s),
        row.bottleneck or figures.UNKNOWN,
        row.confidence or figures.UNKNOWN,
        _tags(row.tags),
    )


def _tags(tags: dict[str, str]) -> str:
    return " ".join(clean(f"{key}={value}", 80) for key, value in sorted(tags.items()))


def _when(started_at: str | None, now_s: float) -> str:
    """How long ago, and from a day on the date."""
    if started_at is None:
        return figures.UNKNOWN
    started = datetime.fromisoformat(started_at)
    ago = now_s - started.timestamp()
    if 0 <= ago < 86400:
        whole = int(ago)
        for size, unit in ((3600, "h"), (60, "min"), (1, "s")):
            if whole >= size:
                return f"{whole // size} {unit} ago"
        return "now"
    return started.astimezone().strftime("%Y-%m-%d")
