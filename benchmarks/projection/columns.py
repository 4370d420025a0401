"""The rows of a table times their operators, as columns: the curves run over all of it at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from accelprof.profiler.advisor import curves
from accelprof.profiler.advisor.curves import Parameters, Target
from accelprof.profiler.advisor.operators import CONVOLUTIONS, SIZES, STREAMS, Operator

from . import software, table
from .table import Row

Column = torch.Tensor
OPTIMIZER_BYTES = 20.0  # read and written a parameter: weight, gradient, one or two moments
PRECISIONS = {"amp-fp16": "fp16", "amp-bf16": "bf16", "mxfp8": "fp8"}
NUMBERS = ("peak", "vector", "bytes_per_s", "cores", "cache_bytes", "tdp_w")
CHIP = {"products": "chip_products", "scalar": "chip_vector", "bandwidth": "chip_bandwidth"}
PER_OPERATOR = ("calls", "flops", "bytes", "outputs", "depth", "width", "taps", "kernels")


def precision_of(row: Row) -> str:
    return PRECISIONS.get(row.precision, row.precision)


def target_of(row: Row) -> Target | None:
    device = table.accelerator(row.accelerator)
    return curves.target(device, precision_of(row)) if device else None


@dataclass
class Built:
    """The operators of a step and what the model needs beside them."""

    operators: list[Operator]
    parameters: int
    tensors: int


@dataclass
class Operators:
    """Operators of one kind on devices of one sort; to the curves it is one operator."""

    kind: str
    rows: Column  # whose step each operator belongs to
    backward: Column
    calls: Column
    flops: Column
    bytes: Column
    outputs: Column
    depth: Column
    width: Column
    taps: Column
    kernels: Column


@dataclass
class Sort:
    """Rows whose accelerators take the same branches of the curves."""

    target: Target  # its numbers are those of any of them
    operators: list[Operators]


class Columns:
    """Rows and their operators; every result has one number a row."""

    def __init__(self, rows: Sequence[Row], built: Sequence[Built]) -> None:
        self.rows = rows
        targets = [_known(row) for row in rows]
        self.numbers = {
            name: torch.tensor([float(getattr(t, name) or 1e9) for t in targets]).double()
            for name in NUMBERS
        }
        self.step_s = torch.tensor([row.step_s or 1.0 for row in rows]).double()
        self.chips = software.Names([t.chip for t in targets])
        self.traits = [software.Traits.of(row) for row in rows]
        self.parameters = torch.tensor([float(b.parameters) for b in built]).double()
        self.tensors = torch.tensor([float(b.tensors) for b in built]).double()
        self.train = torch.tensor([row.task == "train" for row in rows])
        self.old_graph = torch.tensor([row.framework.startswith("tensorflow1") for row in rows])
        self.sorts = list(_sorts(targets, built))
        size = torch.tensor([float(SIZES.get(precision_of(row), 2)) for row in rows]).double()
        exchanged = [_exchange_s(row, b.parameters) for row, b in zip(rows, built, strict=True)]
        self.exchange_s = torch.tensor(exchanged).double()
        self.software = software.Columns(self.traits, size, [row.batch for row in rows])

    def device_s(self, model: Parameters) -> Column:
        """Device time of each row's step."""
        total = torch.zeros(len(self.rows)).double()
        numbers = self.numbers | {f: self.chips.column(model[s]) for f, s in CHIP.items()}
        fused = self.software.fusion(model)
        for sort in self.sorts:
            for ops in sort.operators:
                taken: dict[str, Any] = {n: column[ops.rows] for n, column in numbers.items()}
                at = replace(sort.target, **taken)
                done = replace(
                    ops, bytes=ops.bytes * self._traffic(ops, at, model),
                    flops=ops.flops * self._lost(ops, at, model),
                )  # fmt: skip
                spent = curves.seconds(
                    done, at, curves.sustained(at, model), model,
                    fused[ops.rows],
                )  # fmt: skip
                total = total.index_add(0, ops.rows, spent)
        return (total + self._update_s(model)) * self.software.device_factor(model)

    def _traffic(self, ops: Operators, at: Target, model: Parameters) -> Any:
        """What a framework adds to or takes from an operator's own traffic."""
        if ops.kind in STREAMS:
            return self.software.narrow(model)[ops.rows]
        if ops.kind in CONVOLUTIONS and ops.kind != "depthwise" and at.tensor:
            return self.software.relayout(model)[ops.rows]
        return 1.0

    def _lost(self, ops: Operators, at: Target, model: Parameters) -> Any:
        """Where a library of the time had no good kernel: grouped convolutions of TensorFlow 1 on
        Turing's tensor cores, and anything in fp64 on Volta."""
        host = model["host"]
        if ops.kind == "grouped" and at.tensor and at.architecture == "Turing":
            return torch.where(self.old_graph[ops.rows], host["turing_grouped"], 1.0)
        if at.precision == "fp64" and at.architecture == "Volta" and ops.kind not in STREAMS:
            return host["volta_fp64"]
        return 1.0

    def _update_s(self, model: Parameters) -> Column:
        """The optimizer's pass over the parameters."""
        speed = self.numbers["bytes_per_s"] * model["efficiency"]["bandwidth"]
        updates = self.train & ~self.software.synchronous
        return torch.where(updates, self.parameters * OPTIMIZER_BYTES / speed, 0.0)

    def host_s(self, model: Parameters) -> Column:
        """The host's own work of each row's step: calls, and what a framework does a sample."""
        calls = torch.zeros(len(self.rows)).double()
        fused = self.software.fusion(model)
        host = model["host"]
        for sort in self.sorts:
            for ops in sort.operators:
                weight = torch.where(ops.backward, host["backward"], host["forward"])
                weight = torch.where(self.train[ops.rows], weight, 1.0)
                left = fused[ops.rows] if ops.kind in STREAMS else 1.0
                calls = calls.index_add(0, ops.rows, ops.calls * weight * left)
        update_s = torch.where(
            self.train & self.software.eager, self.tensors * host["update_s"], 0.0
        )
        each = calls * self.software.call_s(model) + self.software.sample_s(model) + update_s
        return each * self.software.host_factor(model)

    def serial_s(self, model: Parameters) -> Column:
        """What neither hides: gradient exchange beyond the backward pass, copies of the input."""
        return self.exchange_s + self.software.copy_s(model)


def _exchange_s(row: Row, parameters: int) -> float:
    """Gradient exchange that the backward pass does not hide."""
    device = table.accelerator(row.accelerator)
    if device is None or row.task != "train":
        return 0.0
    return curves.exchange_seconds(device, parameters * SIZES.get(precision_of(row), 2), row.count)


def _known(row: Row) -> Target:
    found = target_of(row)
    assert found is not None, f"{row.accelerator} cannot run {row.precision}"
    return found


def _sorts(targets: Sequence[Target], built: Sequence[Built]) -> list[Sort]:
    numeric = {*NUMBERS, *CHIP, "name", "architecture", "chip", "precision"}
    kept = [f.name for f in fields(Target) if f.name not in numeric]
    rows: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for index, at in enumerate(targets):
        same = tuple(getattr(at, name) for name in kept)
        rows[(*same, at.precision == "fp64", at.architecture)].append(index)
    sorts = []
    for members in rows.values():
        by_kind: dict[str, list[tuple[int, Operator]]] = defaultdict(list)
        for index in members:
            for op in built[index].operators:
                by_kind[op.kind].append((index, op))
        sorts.append(Sort(targets[members[0]], [_stack(k, x) for k, x in by_kind.items()]))
    return sorts


def _stack(kind: str, found: list[tuple[int, Operator]]) -> Operators:
    columns = {
        name: torch.tensor([float(getattr(op, name) or 0.0) for _, op in found]).double()
        for name in PER_OPERATOR
    }
    backward = torch.tensor(["backward" in op.name for _, op in found])
    return Operators(kind, torch.tensor([i for i, _ in found]), backward, **columns)
