"""`accelprof prices`: what an hour of each accelerator costs; the user's own prices, edited."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

import msgspec
import typer

from ..accelerators import prices as table
from ..accelerators.catalogue import catalogue, find
from ..accelerators.prices import OWN_PROVIDER, Offer
from ..errors import UserError
from ..reports.columns import columns

app = typer.Typer(rich_markup_mode=None, add_completion=False)
_NAME = Annotated[str, typer.Argument(metavar="ACCELERATOR", help="Id, alias or name: h100, l4.")]
_SOURCE = Annotated[str, typer.Option(help="Where the price is from.")]
_DATE = Annotated[str | None, typer.Option(help="Day of the price [default: today].")]


@app.callback(invoke_without_command=True)
def prices(
    context: typer.Context,
    only: Annotated[
        str | None, typer.Option(metavar="ACCELERATOR", help="All offers of this one.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")] = False,
) -> None:
    """Show prices an hour; set your own, which then count in every report and in advise.

    Shipped are dated list prices. Your own price of an accelerator replaces all of them.

    Example: accelprof prices set h100 2.49 --source "contract of May"
    """
    if context.invoked_subcommand:
        return
    known = table.prices()
    wanted = find(only).id if only else None
    shown = [offer for offer in known.offer if wanted in (None, offer.accelerator)]
    if json:
        body = {
            "schema": "accelprof.prices/1", "offers": [_row(offer) for offer in shown],
            "energy": msgspec.to_builtins(known.energy), "own": str(table.own_path()),
        }  # fmt: skip
        print(msgspec.json.format(msgspec.json.encode(body), indent=2).decode())
        return
    if wanted is None:
        ids = dict.fromkeys(offer.accelerator for offer in shown)
        best = [table.cheapest(name, shown) for name in ids]
        shown = [offer for offer in best if offer is not None]
    print(_table(shown))
    print(_remarks(known, wanted))


def _row(offer: Offer) -> dict[str, Any]:
    return msgspec.structs.asdict(offer) | {
        "usd_per_device_hour": offer.usd_per_device_hour,
        "spot_per_device_hour": offer.spot_per_device_hour,
        "own": offer.provider == OWN_PROVIDER,
    }


def _table(shown: list[Offer]) -> str:
    heads = ("accelerator", "$/h", "spot", "from", "region", "as of")
    rows = [
        (
            o.accelerator, _usd(o.usd_per_device_hour), _usd(o.spot_per_device_hour),
            f"{o.provider} {o.sku}", o.region or "-", o.as_of or "no date",
        )
        for o in sorted(shown, key=lambda o: (o.accelerator, o.usd_per_device_hour or 0.0))
    ]  # fmt: skip
    return "\n".join(columns([heads, *rows], left=(0, 3, 4, 5)))


def _usd(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _remarks(known: table.Prices, wanted: str | None) -> str:
    lines = ["USD a device and hour, on demand unless it says spot; - is unknown."]
    priced = {offer.accelerator for offer in known.offer if offer.usd_per_device_hour is not None}
    missing = [name for name in catalogue() if name not in priced]
    if wanted is None and missing:
        lines.append(f"No price is known of {', '.join(missing)}.")
    if wanted is None:
        lines.append("Shown is the cheapest of each; --only NAME shows all of one.")
    energy = known.energy
    if energy.usd_per_kwh is not None or energy.kg_co2_per_kwh is not None:
        lines.append(
            f"Energy: {_usd(energy.usd_per_kwh)} USD/kWh, "
            f"{'-' if energy.kg_co2_per_kwh is None else f'{energy.kg_co2_per_kwh:g}'} kg CO2/kWh "
            f"({energy.source}, {energy.as_of})."
        )
    return "\n".join(lines)


@app.command("set")
def set_price(  # noqa: PLR0917 - typer reads the options from the signature
    accelerator: _NAME,
    usd: Annotated[float, typer.Argument(metavar="USD", help="An hour of the whole machine.")],
    source: _SOURCE = "entered by hand",
    count: Annotated[int, typer.Option(help="Devices in the machine.")] = 1,
    spot: Annotated[float | None, typer.Option(help="Its spot price, USD an hour.")] = None,
    sku: Annotated[str, typer.Option(help="What the machine is called.")] = "price",
    region: Annotated[str | None, typer.Option(help="Where it stands.")] = None,
    date: _DATE = None,
) -> None:
    """Set your own price of an accelerator; it replaces your last one of the same --sku.

    Example: accelprof prices set h100 19.92 --count 8 --sku p5-reserved --source contract
    """
    offer = Offer(
        OWN_PROVIDER, sku, find(accelerator).id, count, source, usd, spot, region, date or _today()
    )
    problem = table.wrong(offer)
    if problem:
        raise UserError(problem)
    with table.editing() as mine:
        kept = [o for o in mine.offer if (o.accelerator, o.sku) != (offer.accelerator, sku)]
        path = table.save(table.Prices([*kept, offer], mine.energy))
    each = offer.usd_per_device_hour or 0.0
    print(f"{offer.accelerator}: {each:.2f} USD an hour and device ({source}); kept in {path}")


@app.command()
def rm(accelerator: _NAME) -> None:
    """Forget your own prices of an accelerator; the list prices count again.

    Example: accelprof prices rm h100
    """
    name = find(accelerator).id
    with table.editing() as mine:
        kept = [offer for offer in mine.offer if offer.accelerator != name]
        if len(kept) == len(mine.offer):
            raise UserError(f"there is no price of your own of {name}")
        table.save(table.Prices(kept, mine.energy))
    listed = table.cheapest(name, table.offers())
    now = f"the list price counts: {listed.label}" if listed else "its price is unknown now"
    print(f"{name}: {now}")


@app.command()
def energy(
    usd: Annotated[float | None, typer.Argument(metavar="USD", help="A kilowatt hour.")] = None,
    carbon: Annotated[
        float | None, typer.Option(metavar="KG", help="CO2 of a kilowatt hour, in kg.")
    ] = None,
    source: _SOURCE = "entered by hand",
    date: _DATE = None,
) -> None:
    """Set what a kilowatt hour costs and emits; advise then adds both to its answer.

    Example: accelprof prices energy 0.28 --carbon 0.36 --source "contract; grid mix 2025"
    """
    for name, value in (("USD", usd), ("--carbon", carbon)):
        if value is not None and not 0 <= value < 100:
            raise UserError(f"{name} {value:g}: from 0 to 100 for a kilowatt hour")
    if usd is None and carbon is None:
        raise UserError("give the price of a kilowatt hour, or --carbon")
    if date is not None and (problem := table.wrong_date(date)):
        raise UserError(problem)
    if not source.strip():
        raise UserError("a price needs a source")
    with table.editing() as mine:
        made = table.Energy(
            usd if usd is not None else mine.energy.usd_per_kwh,
            carbon if carbon is not None else mine.energy.kg_co2_per_kwh, source, date or _today(),
        )  # fmt: skip
        path = table.save(table.Prices(mine.offer, made))
    print(f"kept in {path}")


def _today() -> str:
    return dt.datetime.now(dt.UTC).date().isoformat()
