"""Fits the parameters of the curves and of the tables' software, each with a prior.

Loss: the mean of sqrt(1 + (e / 0.1)^2) over pairs, e the logarithmic error, so that a few odd rows
of a public table do not pull the fit; a pair of a workload with many pairs weighs less. The priors
keep a parameter inside of what it means and every factor of a chip or a test system near 1. The
gradient comes from autograd through curves and sweep alike.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from accelprof.profiler.advisor.curves import Parameters

from . import errors, software
from .columns import CHIP, Built
from .score import Table, summary
from .table import Row

# (section, parameter): centre of the prior, and its logarithmic standard deviation
PRIORS: dict[tuple[str, str], tuple[float, float]] = {
    ("efficiency", "vector"): (0.9, 0.2),
    ("efficiency", "issue_share"): (0.05, 0.4),
    ("efficiency", "fp64"): (0.65, 0.3),
    ("efficiency", "fp64_slow"): (0.5, 0.3),
    ("efficiency", "stream"): (0.5, 0.4),
    ("efficiency", "depthwise"): (0.2, 0.6),
    ("efficiency", "grouped"): (0.7, 0.6),
    ("efficiency", "attention"): (0.5, 0.4),
    ("efficiency", "emulated"): (1.1, 0.2),
    ("efficiency", "emulated_thin"): (2.0, 0.5),
    ("efficiency", "winograd"): (1.4, 0.3),
    ("efficiency", "untiled"): (0.2, 0.6),
    ("efficiency", "tile_waves"): (0.6, 0.5),
    ("efficiency", "split"): (1000.0, 0.7),
    ("efficiency", "depth"): (8.0, 0.7),
    ("efficiency", "width"): (10.0, 0.5),
    ("efficiency", "bandwidth"): (0.75, 0.15),
    ("efficiency", "core_bytes_per_s"): (30e9, 0.5),
    ("efficiency", "norm_passes"): (1.3, 0.4),
    ("efficiency", "cache_gain"): (2.2, 0.3),
    ("efficiency", "cache_share"): (0.7, 0.5),
    ("efficiency", "cache_edge"): (1.5, 0.3),
    ("power", "nm12"): (0.7e12, 0.3),
    ("power", "nm4"): (1.0e12, 0.3),
    ("power", "vector_cost"): (7.0, 0.3),
    ("overhead", "kernel_s"): (4e-6, 0.15),
    ("call_s", "eager"): (35e-6, 0.5),
    ("call_s", "script"): (20e-6, 0.6),
    ("call_s", "xla"): (5e-6, 0.7),
    ("call_s", "compiled"): (5e-6, 0.7),
    ("call_s", "mxnet"): (10e-6, 0.7),
    ("call_s", "tensorflow"): (6e-6, 0.7),
    ("call_s", "engine"): (7e-6, 0.6),
    ("host", "forward"): (1.3, 0.3),
    ("host", "backward"): (0.7, 0.4),
    ("host", "update_s"): (25e-6, 0.6),
    ("host", "sample_s"): (2.2e-4, 0.5),
    ("host", "pageable_bytes_per_s"): (4e9, 0.4),
    ("host", "relayout"): (0.5, 0.7),
    ("host", "narrow"): (0.6, 0.4),
    ("host", "turing_grouped"): (5.0, 0.7),
    ("host", "volta_fp64"): (5.0, 0.7),
    ("fusion", "compiled"): (0.6, 0.3),
    ("fusion", "tensorflow"): (0.6, 0.4),
    ("fusion", "tensorflow_xla"): (0.4, 0.4),
    ("fusion", "mxnet"): (0.5, 0.4),
    ("fusion", "engine"): (0.6, 0.4),
    ("job", "device"): (0.25, 0.5),
    ("job", "host"): (0.3, 0.5),
    ("job", "sweep"): (0.15, 0.5),
}
CHIP_SPREAD = 0.08  # a chip's own factors
FACTORS = {"family": 0.5, "system_host": 0.4, "system_family": 0.2, "system_device": 0.08}
PRIOR_PAIRS = 6.7  # what the priors weigh, in pairs: by the errors on held-back workloads
ROUNDS = 100
Groups = Sequence[tuple[list[Row], Built]]


@dataclass
class Free:
    """One section's free parameters, in units of their priors."""

    section: str
    names: list[str]
    centre: torch.Tensor
    spread: torch.Tensor
    z: torch.Tensor

    def values(self) -> dict[str, Any]:
        return dict(zip(self.names, (self.centre + self.spread * self.z).exp(), strict=True))


def _free(section: str, names: Sequence[str], centres: list[float], spreads: list[float]) -> Free:
    centre = torch.tensor([math.log(c) for c in centres]).double()
    return Free(
        section, list(names), centre, torch.tensor(spreads).double(),
        torch.zeros(len(centres)).double().requires_grad_(True),
    )  # fmt: skip


def _start(table: Table) -> list[Free]:
    found = []
    for section in dict.fromkeys(s for s, _ in PRIORS):
        mine = {name: prior for (s, name), prior in PRIORS.items() if s == section}
        found.append(
            _free(section, list(mine), [c for c, _ in mine.values()], [s for _, s in mine.values()])
        )
    own = table.columns.software
    named = {
        "family": own.family, "system_host": own.system, "system_family": own.together,
        "system_device": own.system, "chip_products": table.columns.chips,
        "chip_vector": table.columns.chips, "chip_bandwidth": table.columns.chips,
    }  # fmt: skip
    for section, names in named.items():
        count = len(names.names)
        spread = FACTORS.get(section, CHIP_SPREAD)
        found.append(_free(section, names.names, [1.0] * count, [spread] * count))
    return found


def _model(free: Sequence[Free], fixed: Parameters) -> Parameters:
    made = {section: dict(values) for section, values in fixed.items()}
    for part in free:
        made[part.section] = made.get(part.section, {}) | part.values()
    return made


def _weights(table: Table) -> torch.Tensor:
    names = [family(table.rows[i]) for i in table.targets.tolist()]
    size = Counter(names)
    found = torch.tensor([size[name] ** -0.5 for name in names]).double()
    return found / found.sum()


def family(row: Row) -> str:
    """The same model from two libraries is one workload."""
    return row.workload.removesuffix("-torchvision").removesuffix("-timm")


def fit(table: Table) -> Parameters:
    """The parameters that suit these rows best, priors considered."""
    fixed, free, weights = software.parameters(), _start(table), _weights(table)
    prior = PRIOR_PAIRS / max(1, len(weights))
    optimizer = torch.optim.LBFGS(
        [part.z for part in free], max_iter=ROUNDS, history_size=30,
        line_search_fn="strong_wolfe", tolerance_change=1e-7,
    )  # fmt: skip

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        errors = table.errors(_model(free, fixed))
        loss = (weights * (1.0 + (errors / 0.1) ** 2).sqrt()).sum()
        loss = loss + prior * torch.stack([(part.z**2).sum() for part in free]).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return {
        section: {name: float(torch.as_tensor(value).detach()) for name, value in values.items()}
        for section, values in _model(free, fixed).items()
    }


def halves(built: Groups) -> tuple[Groups, Groups]:
    """Splits by workload, so that each half holds large and small ones; every other takes two."""
    size: Counter[str] = Counter()
    for group, _ in built:
        size[family(group[0])] += len(group)
    order = sorted(size, key=lambda name: (-size[name], name))
    first = {name for i, name in enumerate(order) if (i + i // 2) % 2 == 0}
    return (
        [g for g in built if family(g[0][0]) in first],
        [g for g in built if family(g[0][0]) not in first],
    )


def report(built: Groups) -> int:
    """Two-fold: each half's fit is judged on the other; then one fit on all, to be shipped."""
    first, second = halves(built)
    for name, learn, judge in (("A", first, second), ("B", second, first)):
        learned = Table(learn)
        model = fit(learned)
        print(f"fitted on half {name}:       {summary(learned.pairs(model), 0)}")
        held_back = Table(judge).pairs(model)
        print(f"held back, other half: {summary(held_back, 0)}")
        print("\n".join(errors.tables(held_back)), flush=True)
    table = Table(built)
    model = fit(table)
    print(f"fitted on all:         {summary(table.pairs(model), 0)}\n")
    _print(model)
    return 0


def _print(model: Parameters) -> None:
    """As TOML; of the factors those that are not 1 anyway."""
    factors = [*FACTORS, *CHIP.values()]
    for section in dict.fromkeys([*(s for s, _ in PRIORS), *factors]):
        print(f"\n[{section}]")
        for name, value in model[section].items():
            if section not in factors:
                print(f"{name} = {value:.3g}")
            elif abs(math.log(value)) > 0.015:
                print(f'"{name}" = {value:.3g}')
