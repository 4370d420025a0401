"""`accelprof advise [RUN]`: what other accelerators would do for a run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from ..errors import UserError
from .opening import opened

PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8")
_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


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
        deadline_s=_seconds(deadline), prices=prices,
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


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    unit = _UNITS.get(found[2] or "s") if found else None
    if found is None or unit is None or float(found[1]) <= 0:
        raise UserError(f"--deadline {text}: a number with s, m, h or d, such as 8h")
    return float(found[1]) * unit
