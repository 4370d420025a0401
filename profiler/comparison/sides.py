"""One run of a comparison: its report, what it was judged from, and its steady steps in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...storage.reader import RunReader
from ..accelerators.catalogue import find
from ..accelerators.prices import cheapest, offers
from ..diagnosis import shares as division
from ..diagnosis.model import RunView, Step
from ..diagnosis.statistics import blocks
from ..errors import UserError
from ..report import Device, Report

MOST_BLOCKS = 24
LEAST_STEPS = 4  # of a block
KEPT_STEPS = 40  # of a block, for quantiles


@dataclass(frozen=True)
class Block:
    """Contiguous steady steps: neighbours are not independent, blocks nearly are."""

    steps: int
    duration_s: float
    samples: float | None
    step_ms: tuple[float, ...]  # thinned
    raw: tuple[float, ...]  # sums by shares.RAW


@dataclass(frozen=True)
class Side:
    report: Report
    view: RunView
    blocks: tuple[Block, ...]
    folder: Path

    @property
    def id(self) -> str:
        return self.report.run.id or self.folder.name


def side(reader: RunReader, report: Report, view: RunView) -> Side:
    """A run made ready for comparison."""
    made, times = cut(view.steady.steps), view.samples_times
    if times != 1.0:  # the job's samples, of all its ranks
        made = tuple(
            replace(b, samples=None if b.samples is None or times is None else b.samples * times)
            for b in made
        )
    return Side(report, view, made, reader.folder)


def cut(steps: Sequence[Step]) -> tuple[Block, ...]:
    """Up to MOST_BLOCKS blocks of at least LEAST_STEPS steps; fewer for a short run."""
    count = min(MOST_BLOCKS, len(steps) // LEAST_STEPS)
    return tuple(_block(steps[a:b]) for a, b in blocks(len(steps), count)) if count else ()


def _block(steps: Sequence[Step]) -> Block:
    samples = [s.samples for s in steps if s.samples is not None]
    every = max(1, len(steps) // KEPT_STEPS)
    return Block(
        len(steps), sum(s.duration_ns for s in steps) / 1e9,
        sum(samples) if len(samples) == len(steps) else None,
        tuple(s.duration_ns / 1e6 for s in steps[::every]), tuple(division.totals(steps)),
    )  # fmt: skip


def price_per_hour(report: Report) -> tuple[float | None, str]:
    """USD an hour of the run's accelerators, and the price's source or why there is none."""
    if report.cost.usd_per_hour is not None:
        return report.cost.usd_per_hour, report.cost.price_source or ""
    devices = [d for d in report.devices if d.kind in ("gpu", "tpu")]
    if not devices:
        return None, "no accelerator in the run"
    known, total, sources = offers(), 0.0, []
    for device in devices:
        offer = cheapest(_catalogue_id(device), known)
        if offer is None or offer.usd_per_device_hour is None:
            return None, f"no price known of {device.name}"
        total += offer.usd_per_device_hour
        sources.append(offer.label)
    return total, "; ".join(dict.fromkeys(sources))


def _catalogue_id(device: Device) -> str:
    """The catalogue's id of a device, which a run may name by an alias; else what the run says."""
    name = device.catalogue or device.name
    try:
        return find(name).id
    except UserError:
        return name
