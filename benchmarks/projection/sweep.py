"""From measured steps on one accelerator to another: what was the device, what the host?

A throughput alone does not say. The job's device time and host time are the model's, each times a
factor of the job; the factors are those that suit best all batch sizes that were measured of the
job on the *source* accelerator, drawn towards 1. The step that is carried over counts most. Then
the same factors and the model's times of the target give the target's step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from accelprof.profiler.advisor.curves import Parameters

from .table import Row

Column = torch.Tensor
ROUNDS = 8  # of Gauss-Newton
DAMPING = 0.7
SHARPNESS = 4.0  # device and host side by side: (d^4 + h^4)^(1/4)
ODD = 0.3  # a batch size that far off (logarithm) counts half, farther ones less


@dataclass(frozen=True)
class Times:
    """Logarithms of the model's times in s, one number a row."""

    device: Column
    host: Column
    serial: Column

    def step(self, rows: Column, device: Column, host: Column) -> tuple[Column, Column, Column]:
        """Logarithm of the step of `rows`, the job's factors given; its two derivatives."""
        d, h, s = self.device[rows] + device, self.host[rows] + host, self.serial[rows]
        joined = torch.logaddexp(SHARPNESS * d, SHARPNESS * h) / SHARPNESS
        step = torch.logaddexp(joined, s)
        share = (joined - step).exp()
        on_device = torch.sigmoid(SHARPNESS * (d - h))
        return step, share * on_device, share * (1.0 - on_device)


class Series:
    """Which rows are one job on one accelerator at several batch sizes."""

    def __init__(self, rows: Sequence[Row]) -> None:
        together: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for index, row in enumerate(rows):
            together[_job(row)].append(index)
        carried, beside = [], []
        for members in together.values():
            for one in members:
                carried += [one] * len(members)
                beside += members
        self.carried, self.beside = torch.tensor(carried), torch.tensor(beside)
        self.itself = self.carried == self.beside
        self.rows = torch.arange(len(rows))


def _job(row: Row) -> tuple[str, ...]:
    page = row.source.partition("@")[0]
    return (
        page, row.library, row.accelerator, row.workload, row.task, row.framework, row.precision,
        row.shape, str(row.count),
    )  # fmt: skip


def factors(
    measured: Column, times: Times, series: Series, spread: dict[str, Column]
) -> tuple[Column, Column]:
    """Logarithms of the job's device and host factor, for every row as the one carried over."""
    count = len(series.rows)
    none = torch.zeros(count).double()
    # from where the step itself is explained, and nothing is divided yet
    device = host = measured - times.step(series.rows, none, none)[0]
    trust = torch.where(series.itself, spread["own"] ** -2, spread["sweep"] ** -2)
    pull_device, pull_host = spread["device"] ** -2, spread["host"] ** -2

    def total(column: Column) -> Column:
        return torch.zeros(count).double().index_add(0, series.carried, column)

    for _ in range(ROUNDS):
        step, by_device, by_host = times.step(
            series.beside, device[series.carried], host[series.carried]
        )
        left = measured[series.beside] - step
        odd = torch.where(series.itself, 0.0, (left / ODD) ** 2)
        weight = trust / (1.0 + odd)
        a = total(weight * by_device * by_device) + pull_device
        b = total(weight * by_device * by_host)
        c = total(weight * by_host * by_host) + pull_host
        x = total(weight * by_device * left) - device * pull_device
        y = total(weight * by_host * left) - host * pull_host
        whole = a * c - b * b
        # damped: where device and host change places the full step goes to and fro
        device = device + (DAMPING * (c * x - b * y) / whole).clamp(-0.3, 0.3)
        host = host + (DAMPING * (a * y - b * x) / whole).clamp(-0.3, 0.3)
    return device, host


def project(
    measured: Column,
    times: Times,
    series: Series,
    pairs: tuple[Column, Column],
    model: Parameters,
) -> Column:
    """Logarithm of each pair's projected step; `pairs`: rows of the sources, of the targets."""
    sources, targets = pairs
    spread = {name: torch.as_tensor(value).double() for name, value in model["job"].items()}
    device, host = factors(measured, times, series, spread)
    return times.step(targets, device[sources], host[sources])[0]
