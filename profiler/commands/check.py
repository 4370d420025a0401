"""`accelprof check [RUN] LIMITS`: a gate for CI."""

from __future__ import annotations

import math
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from ..diagnosis.ids import FINDING_IDS
from ..errors import UserError
from .compare import opened_side, write
from .sizes import size_bytes


def check(  # noqa: PLR0917 - typer reads the options from the signature
    run: Annotated[str, typer.Argument(help="Id, unique prefix, name, 'last' or path.")] = "last",
    max_input_share: Annotated[
        float | None,
        typer.Option(min=0, max=100, metavar="PCT", help="Most of the time waiting for data."),
    ] = None,
    min_throughput: Annotated[
        float | None,
        typer.Option(min=0, metavar="N", help="Least samples per second."),
    ] = None,
    max_step_ms: Annotated[
        float | None,
        typer.Option(min=0, metavar="N", help="Most of the usual step (p50)."),
    ] = None,
    max_step_ms_p95: Annotated[
        float | None,
        typer.Option(min=0, metavar="N", help="Most of a late step (p95)."),
    ] = None,
    max_memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Peak device memory: 40GB, 38GiB.")
    ] = None,
    max_host_memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Peak host memory of the job.")
    ] = None,
    min_device_busy: Annotated[
        float | None, typer.Option(min=0, max=100, metavar="PCT", help="Least device use.")
    ] = None,
    min_mfu: Annotated[
        float | None, typer.Option(min=0, max=100, metavar="PCT", help="Least part of peak FLOPs.")
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(min=0, metavar="USD", help="Most of the run, by list price."),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="RUN", help="A run to set this one against.")
    ] = None,
    max_regression: Annotated[
        float | None,
        typer.Option(min=0, metavar="PCT", help="Throughput it may lose to it [default: 5]."),
    ] = None,
    forbid: Annotated[
        list[str] | None, typer.Option(metavar="FINDING", help="An id that must not be found.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")] = False,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a JUnit file, too.")
    ] = None,
    github: Annotated[
        bool, typer.Option("--github", help="Annotations for GitHub Actions, too.")
    ] = False,
) -> int:
    """Hold a run against limits: exit 0 when all hold, 1 when one does not.

    A figure that is not known fails its limit, with the reason.

    Example: accelprof check last --max-input-share 20 --baseline main.duckdb --max-regression 5
    """
    from ..comparison import gate, gate_outputs

    limits = gate.Limits(
        input_share=max_input_share, throughput=min_throughput, step_ms=max_step_ms,
        step_ms_p95=max_step_ms_p95, device_memory_bytes=_bytes("--max-memory", max_memory),
        host_memory_bytes=_bytes("--max-host-memory", max_host_memory),
        device_busy=min_device_busy, mfu=min_mfu, usd=max_cost, regression=max_regression,
        forbidden=tuple(forbid or ()),
    )  # fmt: skip
    if any(isinstance(value, float) and math.isinf(value) for value in vars(limits).values()):
        raise UserError("a limit is a finite number")
    for unknown in set(limits.forbidden) - FINDING_IDS:
        near = get_close_matches(unknown, FINDING_IDS, n=1, cutoff=0.0)
        raise UserError(f"--forbid {unknown!r}: no finding has this id; the nearest is {near[0]}")
    if max_regression is not None and baseline is None:
        raise UserError("--max-regression needs --baseline RUN")
    if not limits.asked and baseline is None:
        raise UserError("no limit given, so nothing to check (see accelprof check --help)")
    other = opened_side(baseline) if baseline is not None else None
    side = opened_side(run)
    if side.report.run.state == "running":
        print(f"accelprof: {side.id} still runs: judged by what is recorded so far",
              file=sys.stderr)  # fmt: skip
    found = gate.judge(limits, side, other)
    if junit is not None:
        write(junit, gate_outputs.junit(found))
    if github:  # read by the runner from either stream; with --json stdout is JSON alone
        for line in gate_outputs.github(found):
            print(line, file=sys.stderr if json else sys.stdout)
    if json:
        _print_json(found)
    else:
        sys.stdout.write(gate_outputs.text(found))
    return 0 if found.passed else 1


def _print_json(found: object) -> None:
    import msgspec

    fields = msgspec.to_builtins(found)
    body = {"schema": fields.pop("schema"), **fields}
    print(msgspec.json.format(msgspec.json.encode(body), indent=2).decode())


def _bytes(option: str, text: str | None) -> int | None:
    return None if text is None else size_bytes(option, text)
