"""One look at every NVIDIA device: what it is, which metrics can be read, why others cannot."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .nvml_card import MIG_UTILISATION, Card
from .nvml_driver import ADMIN, NOBODY, Missing
from .nvml_fields import COLUMNS, UTILISATION
from .nvml_open import catalogue_id
from .nvml_sampling import Sampling

OPEN_WAIT_S = 20.0  # without persistence mode each GPU takes about a second to wake
GPM_INTERVAL_S = 0.55
# A MIG instance has no values of its own for these: they are the card's.
OF_THE_CARD = Missing("n/a for a MIG instance: see its card", None, NOBODY)


@dataclass(slots=True)
class Probed:
    """One device with its last values; `missing` holds every metric that gave none."""

    index: int
    uuid: str | None
    name: str
    catalogue: str | None
    details: dict[str, Any] = field(default_factory=dict)
    values: dict[str, float | int] = field(default_factory=dict)
    missing: dict[str, Missing] = field(default_factory=dict)
    mig_parent: int | None = None


def probe(
    environment: Mapping[str, str] | None = None, root: Path = Path("/")
) -> tuple[list[Probed], Missing | None]:
    """The devices, or why there are none. Takes about 0.6 s where there is GPM, else less."""
    sampling = Sampling(environment=os.environ if environment is None else environment, root=root)
    try:
        if not sampling.open(OPEN_WAIT_S):
            hangs = Missing(f"the driver has not answered for {OPEN_WAIT_S:.0f} s", None, ADMIN)
            return [], sampling.failure or hangs
        # GPM needs two samples, energy without a counter too; the slow calls come with the last.
        wait_s = GPM_INTERVAL_S if any(card.gpm for card in sampling.cards) else 0.05
        for pause_s in (0.0, wait_s, 0.0):
            time.sleep(pause_s)
            sampling.sample(time.time_ns())
            sampling.wait_for_slow()
        absent = [
            Probed(index, None, "unknown NVIDIA device", None, missing=dict.fromkeys(COLUMNS, why))
            for index, why in sampling.absent()
        ]
        found = [_probed(card) for card in sampling.cards] + absent
        return sorted(found, key=lambda device: device.index), None
    finally:
        sampling.close()


def _probed(card: Card) -> Probed:
    values = {name: value for name, value in card.values.items() if value is not None}
    missing = {name: _why(card, name) for name in COLUMNS if name not in values}
    return Probed(
        card.device,
        card.uuid or None,
        card.name,
        catalogue_id(card),
        dict(card.details),
        values,
        missing,
        card.parent.device if card.parent is not None else None,
    )


def _why(card: Card, column: str) -> Missing:
    found = card.missing.get(column)
    if found is not None:
        return found
    if card.lost:
        return Missing("the GPU is lost (fell off the bus)", 15, ADMIN)
    if card.parent is not None:
        of_mig = any(metric.column == column for metric in UTILISATION.metrics)
        return MIG_UTILISATION if of_mig else OF_THE_CARD
    return Missing("the driver gave no value", None, NOBODY)
