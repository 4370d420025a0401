"""Dated prices of accelerators: list prices as shipped, and what this user pays.

The user's own table ($ACCELPROF_HOME/prices.toml, edited by `accelprof prices`) comes before the
shipped one for every accelerator that it names. A file given to one command replaces both.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import json
import os
import tempfile
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from ...storage import library
from ..errors import UserError
from .catalogue import catalogue

OWN = "prices.toml"
OWN_PROVIDER = "own"
MOST_DEVICES = 100_000  # of one machine
MOST_USD = 10_000.0  # a device and hour; beyond it is a slip of the pen


class Offer(msgspec.Struct, frozen=True):
    """One instance type: USD per hour of the whole instance with `count` devices."""

    provider: str
    sku: str
    accelerator: str
    count: int
    source: str
    on_demand: float | None = None
    spot: float | None = None
    region: str | None = None
    as_of: str | None = None

    @property
    def usd_per_device_hour(self) -> float | None:
        return None if self.on_demand is None else self.on_demand / self.count

    @property
    def spot_per_device_hour(self) -> float | None:
        return None if self.spot is None else self.spot / self.count

    @property
    def label(self) -> str:
        """Where the figure comes from, for people: provider, instance, date."""
        return f"{self.provider} {self.sku}, {self.as_of or 'no date'}"


class Energy(msgspec.Struct, frozen=True):
    """What a kilowatt hour costs, in USD and in kg of CO2; unknown unless the user says it."""

    usd_per_kwh: float | None = None
    kg_co2_per_kwh: float | None = None
    source: str | None = None
    as_of: str | None = None


class Prices(msgspec.Struct):
    """A table of prices."""

    offer: list[Offer] = []
    energy: Energy = Energy()


def prices(path: Path | None = None) -> Prices:
    """The prices that count: of a file, else the user's own before the shipped ones."""
    if path is not None:
        return _read(path)
    mine = own()
    named = {offer.accelerator for offer in mine.offer}
    shipped = [offer for offer in _shipped().offer if offer.accelerator not in named]
    return Prices([*mine.offer, *shipped], mine.energy)


def offers(path: Path | None = None) -> list[Offer]:
    """The offers of `prices`. UserError when a file cannot be used."""
    return prices(path).offer


def own() -> Prices:
    """The user's own table; empty when there is none. UserError when it cannot be used."""
    path = own_path()
    return _read(path) if path.exists() else Prices()


def own_path() -> Path:
    return library.home() / OWN


def cheapest(accelerator: str, among: list[Offer]) -> Offer | None:
    """The lowest on-demand price per device of an accelerator id; None when no price is known."""
    known = [o for o in among if o.accelerator == accelerator and o.usd_per_device_hour is not None]
    return min(known, key=lambda o: o.usd_per_device_hour or 0.0, default=None)


def _shipped() -> Prices:
    text = (resources.files(__package__) / "prices.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), Prices)


def _read(path: Path) -> Prices:
    try:
        found = msgspec.convert(tomllib.loads(path.read_text("utf-8")), Prices)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"cannot use the prices in {path}: {reason}") from error
    for number, offer in enumerate(found.offer, 1):
        problem = wrong(offer)
        if problem:
            raise UserError(f"cannot use the prices in {path}: offer {number}: {problem}")
    for name, value in (("usd_per_kwh", found.energy.usd_per_kwh),
                        ("kg_co2_per_kwh", found.energy.kg_co2_per_kwh)):  # fmt: skip
        if value is not None and not 0 <= value < 100:
            raise UserError(f"cannot use the prices in {path}: energy: {name} = {value:g}")
    return found


def wrong(offer: Offer) -> str | None:
    """What is wrong with an offer; None when it can be used."""
    if offer.accelerator not in catalogue():
        return f"accelerator {offer.accelerator!r} is not in the catalogue"
    if not 1 <= offer.count <= MOST_DEVICES:
        return f"count = {offer.count}"
    for name, value in (("on_demand", offer.on_demand), ("spot", offer.spot)):
        if value is not None and not 0 <= value / offer.count <= MOST_USD:
            return f"{name} = {value:g} USD an hour; a device costs 0 to {MOST_USD:g}"
    if not offer.source.strip():
        return "a price needs a source"
    return wrong_date(offer.as_of) if offer.as_of is not None else None


def wrong_date(text: str) -> str | None:
    """What is wrong with the day of a price; None when it can be used."""
    try:
        day = dt.date.fromisoformat(text)
    except ValueError:
        return f"{text!r} is not a date such as 2026-11-30"
    ahead = day - dt.datetime.now(dt.UTC).date()
    return f"the date {text} lies in the future" if ahead.days > 1 else None


@contextlib.contextmanager
def editing() -> Iterator[Prices]:
    """The user's own table, while nobody else edits it. Raises UserError."""
    path = own_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield own()
    finally:
        os.close(folder)


def save(table: Prices) -> Path:
    """Writes the user's own table, in one piece. Raises UserError."""
    path = own_path()
    text = "# Own prices, USD an hour of `count` devices; edited by `accelprof prices`.\n"
    energy = _fields(table.energy)
    if energy:
        text += "\n[energy]\n" + energy
    text += "".join("\n[[offer]]\n" + _fields(offer) for offer in table.offer)
    try:
        descriptor, part = tempfile.mkstemp(prefix=OWN, dir=path.parent)  # as 0600
        with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        os.replace(part, path)  # noqa: PTH105
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error
    return path


def _fields(row: Any) -> str:
    """Lines of TOML; its basic strings are JSON's, but for DEL."""
    values = msgspec.structs.asdict(row).items()
    text = "".join(
        f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values
        if value is not None
    )  # fmt: skip
    return text.replace("\x7f", "\\u007f")
