"""Fits the parameters of profiler/advisor/model.toml: half of the workloads, judged on the other.

Coordinate search in the logarithm of each parameter, inside bounds that keep its meaning. The
loss is the mean of sqrt(1 + (e / 0.1)^2) over pairs, e the logarithmic error, so that a few odd
rows of a public table do not pull the fit; a pair weighs less in a group with many.
"""

from __future__ import annotations

import copy
import math
from collections import Counter

from accelprof.profiler.advisor.curves import Parameters, parameters

from .score import Built, Pair, pairs_of, summary
from .table import Row

# (section, parameter): lowest and highest value that still means what it says
BOUNDS: dict[tuple[str, str], tuple[float, float]] = {
    ("efficiency", "tensor"): (0.6, 1.0),
    ("efficiency", "vector"): (0.5, 1.3),
    ("efficiency", "issue_share"): (0.01, 0.3),
    ("efficiency", "bandwidth"): (0.6, 0.95),
    ("efficiency", "grouped"): (0.1, 1.0),
    ("efficiency", "cache_gain"): (1.2, 4.0),
    ("efficiency", "tile_waves"): (0.1, 2.0),
    ("efficiency", "untiled"): (0.02, 0.6),
    ("efficiency", "depth"): (2.0, 200.0),
    ("efficiency", "width"): (1.0, 50.0),
    ("power", "nm12"): (0.25e12, 0.8e12),
    ("power", "nm4"): (0.5e12, 1.2e12),
    ("power", "vector_cost"): (3.0, 10.0),
    ("overhead", "kernel_s"): (1e-6, 8e-6),
    ("overhead", "eager_s"): (10e-6, 60e-6),
    ("overhead", "graph_s"): (2e-6, 30e-6),
    ("overhead", "engine_s"): (1e-6, 15e-6),
    ("overhead", "update_s"): (5e-6, 60e-6),
    ("overhead", "fusion"): (0.15, 0.8),
    ("link", "efficiency"): (0.3, 0.9),
    ("link", "pcie_bytes_per_s"): (2e9, 25e9),
    ("link", "overlap"): (0.2, 0.9),
}
STEPS = (0.2, 0.07)  # logarithmic steps of the search, coarse then fine
Groups = list[tuple[list[Row], Built]]


def halves(built: Groups) -> tuple[Groups, Groups]:
    """Splits by workload, so that each half holds large and small ones; every other takes two."""
    size: Counter[str] = Counter()
    for group, _ in built:
        size[_family(group)] += len(group)
    order = sorted(size, key=lambda name: (-size[name], name))
    first = {name for i, name in enumerate(order) if (i + i // 2) % 2 == 0}
    return (
        [g for g in built if _family(g[0]) in first],
        [g for g in built if _family(g[0]) not in first],
    )


def _family(group: list[Row]) -> str:
    """The same model from two libraries is one workload."""
    return group[0].workload.removesuffix("-torchvision").removesuffix("-timm")


def _pairs(groups: Groups, model: Parameters) -> list[Pair]:
    return [pair for group, made in groups for pair in pairs_of(group, made, model)]


def loss(groups: Groups, model: Parameters) -> float:
    total = weight = 0.0
    for group, made in groups:
        found = list(pairs_of(group, made, model))
        for pair in found:
            share = len(found) ** -0.5
            error = math.log1p(pair.error)
            total += share * math.sqrt(1.0 + (error / 0.1) ** 2)
            weight += share
    return total / max(weight, 1e-9)


def fit(groups: Groups, start: Parameters) -> Parameters:
    """The parameters that suit these groups best, near the start."""
    model, best = copy.deepcopy(start), loss(groups, start)
    for step in STEPS:
        for (section, name), (low, high) in BOUNDS.items():
            for sign in (1.0, -1.0):
                moved = True
                while moved:
                    held = model[section][name]
                    model[section][name] = min(high, max(low, held * math.exp(sign * step)))
                    found = loss(groups, model)
                    moved = found < best - 1e-5
                    if moved:
                        best = found
                    else:
                        model[section][name] = held
    return model


def report(built: Groups) -> int:
    """Two-fold: each half's fit is judged on the other; then one fit on all, to be shipped."""
    start = parameters()
    first, second = halves(built)
    for name, learn, judge in (("A", first, second), ("B", second, first)):
        model = fit(learn, start)
        print(f"fitted on half {name}:       {summary(_pairs(learn, model), 0)}")
        print(f"held back, other half: {summary(_pairs(judge, model), 0)}", flush=True)
    model = fit(built, start)
    print(f"fitted on all:         {summary(_pairs(built, model), 0)}\n")
    for section, values in model.items():
        print(f"[{section}]")
        for name, value in values.items():
            print(f"{name} = {value:.4g}")
    return 0
