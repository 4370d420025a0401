"""`accelprof advise [RUN]`: what other accelerators would do for a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from ..errors import UserError
from .opening import opened
from .spans import seconds

PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8")


def advise(  # noqa: PLR0917 - typer reads the options from the signature
    run: Annotated[str, typer.Argument(help="Id, unique prefix, name, 'last' or path.")] = "last",
    epochs: Annotated[float | None, typer.Option(help="Length of the run to price.")] = None,
    steps: Annotated[float | None, typer.Option(help="The same in steps.")] = None,
    samples: Annotated[float | None, typer.Option(help="The same in samples.")] = None,
    prices: Annotated[Path | None, typer.Option(help="Your prices, a TOML file.")] = None,
    precision: Annotated[
        str | None, typer.Option(help=f"Project in another precision: {', '.join(PRECISIONS)}.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this accelerator; may be repeated.")
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Devices, data parallel [default: the run's].")
    ] = None,
    budget: Annotated[float | None, typer.Option(help="USD that the run may cost.")] = None,
    deadline: Annotated[str | None, typer.Option(help="Time it may take: 90m, 8h, 2d.")] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Sequences at once, of a model that generates.")
    ] = None,
    context: Annotated[
        int | None, typer.Option(min=1, help="Tokens of each sequence [default: as recorded].")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show every accelerator.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Project the run on other accelerators: time, memory, cost, and whether any helps.

    Example: accelprof advise last --epochs 90 --only h100 --only l4
    """
    from .. import advisor
    from ..advisor.table import render

    asked = advisor.Question(
        epochs=_positive("--epochs", epochs), steps=_positive("--steps", steps),
        samples=_positive("--samples", samples), precision=_precision(precision),
        only=_names(only), count=count, budget_usd=_positive("--budget", budget),
        deadline_s=seconds("--deadline", deadline) if deadline else None, prices=prices,
        batch=batch, context=context,
    )  # fmt: skip
    with opened(run) as reader:
        basis = advisor.read(reader)
    if basis.step_s is None and not basis.operators:
        raise UserError(
            f"{run}: no steps and no operators were recorded, so nothing can be projected", status=3
        )
    advice = advisor.advise(basis, asked)
    print(msgspec.json.encode(advice).decode() if json else render(advice, every=every))


def _positive(option: str, value: float | None) -> float | None:
    if value is not None and not 0 < value < float("inf"):
        raise UserError(f"{option} has to be above 0")
    return value


def _precision(given: str | None) -> str | None:
    if given is None or given.lower() in PRECISIONS:
        return given.lower() if given else None
    raise UserError(f"--precision {given}: known are {', '.join(PRECISIONS)}")


def _names(given: list[str] | None) -> tuple[str, ...]:
    return tuple(n.strip() for text in given or () for n in text.split(",") if n.strip())
