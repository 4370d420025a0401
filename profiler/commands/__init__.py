"""The command line: one file a command, loaded when it is used; every error becomes one line.

`accelprof run COMMAND...` without options does not even load typer: the job starts at once.
"""

from __future__ import annotations

import importlib
import keyword
import sys
from typing import Any, NoReturn

from ..launch import RunOptions, launch, log_bug, warn

# Name and what stands in the list; the file and its function are called like the command.
COMMANDS: tuple[tuple[str, str], ...] = (
    ("run", "Run a job with hooks and sampler; ends with a verdict."),
    ("attach", "Record a job that is already running, from outside."),
    ("top", "Live view of a running run, or replay of a finished one."),
    ("runs", "List, tag, note and delete recorded runs."),
    ("report", "The report of a run: md, html, json, txt."),
    ("compare", "Runs side by side: what changed, what it did, whether it is noise."),
    ("check", "Gate for CI: limits and a baseline; exit 1 when one fails."),
    ("fleet", "Many runs: hours lost to what, and which runs to mend first."),
    ("export", "Hand a run on: Parquet, CSV, Chrome trace, other tools."),
    ("serve-metrics", "OpenMetrics of the runs that are alive, for Prometheus."),
    ("advise", "What other accelerators would do for a run: time, memory, cost."),
    ("tune", "Measured trials of other DataLoader settings: the best, and the line to change."),
    ("capture", "Ask a running job for one more operator capture."),
    ("sql", "Read-only SQL over a run."),
    ("daemon", "The always-on recorder of this host: start, stop, status."),
    ("devices", "The accelerators that are here, and what can be read of them."),
    ("accelerators", "The catalogue: peak rates, bandwidth, memory, price."),
    ("prices", "What an hour of each accelerator costs; your own prices."),
    ("calibrate", "Measure this machine's ceilings and keep them."),
    ("import", "Judge traces of torch.profiler and logs of nvidia-smi."),
)
WRAPPERS = ("run", "tune")
OK, WRONG_USE, NOTHING, INTERRUPTED = 0, 2, 3, 130
_EXAMPLE = "Example: accelprof run python train.py --lr 1e-3, then accelprof report"


def app() -> NoReturn:
    """Runs the command line and exits with its status."""
    words = sys.argv[1:]
    if words[:1] != ["run"]:  # which leaves its streams to the job
        from .streams import prepare

        prepare()
    sys.exit(main(words))


def main(words: list[str]) -> int:
    """The exit status of one command line."""
    if len(words) > 1 and words[0] == "run" and not words[1].startswith("-"):
        return _guarded(lambda: launch(RunOptions(command=words[1:])))
    return _guarded(lambda: _parse_and_run(words))


def _guarded(body: Any) -> int:
    """No traceback ever reaches the user."""
    try:
        status = int(body() or OK)
        if sys.stdout is not None:
            sys.stdout.flush()  # a full disk is told here, not at the interpreter's end
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else OK
    except Exception as error:
        if (expected := _expected(error)) is not None:
            return expected
        warn(f"internal error: {log_bug(error)}")
        return WRONG_USE


def _expected(error: Exception) -> int | None:
    """Prints the one line of an error that is the user's to mend; None for our own bugs."""
    from ...storage.library import RunNotFound
    from ..errors import UserError

    if isinstance(error, UserError):
        status = error.status
    elif isinstance(error, RunNotFound):
        status = NOTHING
    elif type(error).__name__ in ("BadRunFile", "QueryError"):  # importing them loads duckdb
        status = WRONG_USE
    else:
        return None
    warn(" ".join(str(error).split()))
    return status


def _parse_and_run(words: list[str]) -> int:
    import typer

    usage_error: Any = typer.BadParameter.__mro__[1]
    command = _group()
    try:
        return int(
            command(args=words or ["--help"], prog_name="accelprof", standalone_mode=False) or 0
        )
    except usage_error as error:
        where = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        warn(" ".join(error.format_message().split()) + where)
        return WRONG_USE
    except typer.Abort:
        return INTERRUPTED
    except typer.Exit as error:
        return int(error.exit_code)


def _group() -> Any:
    """The typer application; a command's file is imported when its name is used."""
    import typer
    import typer.core
    import typer.main

    class Lazy(typer.core.TyperGroup):
        """Commands by name out of COMMANDS."""

        def list_commands(self, ctx: Any) -> list[str]:
            return [name for name, _ in COMMANDS]

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name in self.list_commands(ctx):
                return _load(cmd_name)
            _refuse(cmd_name)

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            with formatter.section("Commands"):
                formatter.write_dl(list(COMMANDS))

    root = typer.Typer(cls=Lazy, rich_markup_mode=None)

    @root.callback(epilog=_EXAMPLE)
    def accelprof(
        version: bool = typer.Option(
            False, "--version", callback=_version, is_eager=True, help="Print the version."
        ),
    ) -> None:
        """What bounds a PyTorch job - input, memory, compute, ... -, why, and what to change."""

    return typer.main.get_command(root)


def _refuse(name: str) -> NoReturn:
    """The one line for a command that does not exist, with the one that was meant."""
    from difflib import get_close_matches

    from ..errors import UserError

    near = get_close_matches(name, [command for command, _ in COMMANDS], n=1)
    hint = f": did you mean {near[0]}?" if near else ""
    raise UserError(f"No such command {name!r}{hint} (see accelprof --help)")


def _load(name: str) -> Any:
    import typer
    import typer.main

    from ..errors import UserError

    file = f"{name}_" if keyword.iskeyword(name) else name.replace("-", "_")
    try:
        module = importlib.import_module(f"{__name__}.{file}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{file}":
            raise UserError(
                f"{name} needs the package {error.name}, which is not installed"
            ) from error
        raise UserError(f"{name} is not part of this version") from None
    if (group := getattr(module, "app", None)) is not None:  # a command with commands of its own
        return typer.main.get_command(group)
    one = typer.Typer(rich_markup_mode=None, add_completion=False)
    # The first unknown word ends the options of what runs a job. The rest takes them anywhere.
    one.command(name, context_settings={"allow_interspersed_args": name not in WRAPPERS})(
        getattr(module, file)
    )
    return typer.main.get_command(one)


def _version(wanted: bool) -> None:
    if not wanted:
        return
    import importlib.metadata

    import typer

    print(f"accelprof {importlib.metadata.version('accelprof')}")
    raise typer.Exit
