"""Dated list prices of accelerators; a user's own file of the same form replaces them."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path

import msgspec

from ..errors import UserError


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
    def label(self) -> str:
        """Where the figure comes from, for people: provider, instance, date."""
        return f"{self.provider} {self.sku}, {self.as_of or 'no date'}"


class _Prices(msgspec.Struct):
    offer: list[Offer]


def offers(path: Path | None = None) -> list[Offer]:
    """The offers of a TOML file, or the shipped ones. UserError when the file cannot be used."""
    try:
        if path is None:
            text = (resources.files(__package__) / "prices.toml").read_text("utf-8")
        else:
            text = path.read_text("utf-8")
        return msgspec.convert(tomllib.loads(text), _Prices).offer
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UserError(f"cannot use the prices in {path}: {error}") from error


def cheapest(accelerator: str, among: list[Offer]) -> Offer | None:
    """The lowest on-demand price per device of an accelerator id; None when no price is known."""
    known = [o for o in among if o.accelerator == accelerator and o.usd_per_device_hour is not None]
    return min(known, key=lambda o: o.usd_per_device_hour or 0.0, default=None)
