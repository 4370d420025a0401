"""Projected against measured throughput, for every pair of accelerators of a table."""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from accelprof.profiler.advisor import curves
from accelprof.profiler.advisor.operators import SIZES, Operator
from accelprof.profiler.advisor.transfer import Modelled, carry

from . import table
from .table import Row

PRECISIONS = {"amp-fp16": "fp16", "amp-bf16": "bf16", "mxfp8": "fp8"}
OPTIMIZER_BYTES = 20.0  # read and written a parameter: weight, gradient, one or two moments


@dataclass(frozen=True)
class Pair:
    """One row's throughput carried to another row's accelerator."""

    source: Row
    target: Row
    projected_s: float

    @property
    def error(self) -> float:
        """Projected throughput over measured, less 1."""
        return (self.target.step_s or 0.0) / self.projected_s - 1.0

    @property
    def upward(self) -> bool:
        """Whether the target is the stronger accelerator: the question of an upgrade."""
        return _peak(self.target) > _peak(self.source)


def _peak(row: Row) -> float:
    device = table.accelerator(row.accelerator)
    assert device is not None
    wanted = PRECISIONS.get(row.precision, row.precision)
    precision = curves.usable_precision(device, wanted)
    return device.flops[precision] if precision else 0.0


def is_engine(framework: str) -> bool:
    """Inference engines and hand-written kernels; their pages list the plain framework beside."""
    baseline = ("-torch", "-tf", "-tf-fp16", "-pytorch", "torchscript", "torchscript-fp16")
    if "fastertransformer" in framework:
        return not framework.endswith(baseline)
    return "tensorrt" in framework or "trt" in framework


def host_cost(framework: str) -> str:
    if is_engine(framework):
        return "engine_s"
    graph = ("tensorflow", "mxnet", "jax")
    if framework.startswith(graph) or any(w in framework for w in ("script", "compile", "xla")):
        return "graph_s"
    return "eager_s"


def is_fused(framework: str) -> bool:
    return "compile" in framework or "xla" in framework or is_engine(framework)


def fused_attention(row: Row) -> bool:
    """Whether attention was one kernel: engines, and timm on PyTorch 2."""
    if is_engine(row.framework):
        return True
    if "llm-foundry" in row.framework:
        return True  # its tables are measured with flash attention
    return "timm" in row.framework and row.library.startswith("pytorch 2")


@dataclass
class Built:
    """The operators of a group's step and what the model needs beside them."""

    operators: list[Operator]
    parameters: int
    tensors: int


def modelled(row: Row, built: Built, model: curves.Parameters) -> Modelled | None:
    """The model's times of a row; None when its accelerator or precision is not known."""
    device = table.accelerator(row.accelerator)
    wanted = PRECISIONS.get(row.precision, row.precision)
    at = curves.target(device, wanted, model) if device else None
    if at is None or device is None:
        return None
    fused, cost = is_fused(row.framework), model["overhead"]
    device_s = curves.step_seconds(built.operators, at, model, fused)
    calls = sum(
        op.calls * (cost["fusion"] if fused and op.kind == "stream" else 1.0)
        for op in built.operators
    )
    host = host_cost(row.framework)
    host_s = calls * cost[host]
    exposed_s = 0.0
    if row.task == "train":
        speed = at.bytes_per_s * model["efficiency"]["bandwidth"]
        device_s += built.parameters * OPTIMIZER_BYTES / speed
        host_s *= 0.7  # the backward pass is dispatched from C++
        if host == "eager_s":
            host_s += built.tensors * cost["update_s"]
        gradients = built.parameters * SIZES.get(wanted, 2)
        exposed_s = curves.exchange_seconds(device, gradients, row.count, model)
    return Modelled(device_s, host_s, exposed_s)


def groups(rows: Iterable[Row], skipped: Counter[str]) -> list[list[Row]]:
    """Rows that may be compared, more than one accelerator in each; counts the others."""
    found: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row.step_s is None:
            skipped[f"unit {row.unit}"] += 1
        elif table.accelerator(row.accelerator) is None:
            skipped[f"accelerator {row.accelerator} is in no table"] += 1
        else:
            found[row.key].append(row)
    kept = []
    for group in found.values():
        if len({r.accelerator for r in group}) > 1:
            kept.append(group)
        else:
            skipped["measured on one accelerator only"] += len(group)
    return kept


class Builder:
    """Builds the operators of groups; one dry run serves every batch and precision of a size."""

    def __init__(self) -> None:
        self._runs: dict[tuple[object, ...], tuple[object, int, int] | str] = {}

    def build(self, row: Row) -> Built | str:
        """The group's operators, or why there are none."""
        from . import workloads

        dtype = workloads.dtype_of(row.precision)
        fused = fused_attention(row)
        key = (row.workload, row.task, "timm" in row.framework, dtype, row.shape, fused)
        if key not in self._runs:
            self._runs[key] = self._dry_run(row, fused)
        held = self._runs[key]
        if isinstance(held, str):
            return held
        run, parameters, tensors = held
        # "eff" engines drop the padding; their pages say half of the tokens
        batch = max(1, row.batch // 2) if "-eff-" in row.framework else row.batch
        return Built(run.operators(batch), parameters, tensors)  # type: ignore[attr-defined]

    @staticmethod
    def _dry_run(row: Row, fused: bool) -> tuple[object, int, int] | str:
        from . import operators, workloads

        try:
            work = workloads.build(row.workload, row.task, row.framework, row.precision, row.shape)
        except workloads.Unknown as why:
            return str(why)
        try:
            return operators.DryRun(work.step, fused), work.parameters, work.tensors
        except Exception as error:  # any model's forward may refuse a meta tensor
            return f"does not run on the meta device ({type(error).__name__})"


def pairs_of(group: list[Row], built: Built, model: curves.Parameters) -> Iterator[Pair]:
    """Every ordered pair of accelerators, rows of the same source and version where there are."""
    times = {id(row): modelled(row, built, model) for row in group}
    for source, target in _comparable(group):
        here, there = times[id(source)], times[id(target)]
        if here is None or there is None or source.step_s is None:
            continue
        projected = carry(source.step_s, here, there, model["spread"])
        yield Pair(source, target, projected.mid)


def _comparable(group: list[Row]) -> Iterator[tuple[Row, Row]]:
    best: dict[tuple[str, str], tuple[int, list[tuple[Row, Row]]]] = {}
    for source in group:
        for target in group:
            if source.accelerator == target.accelerator:
                continue
            same = source.source == target.source
            rank = same + (same and source.library == target.library)
            key = (source.accelerator, target.accelerator)
            held = best.get(key, (-1, []))
            if rank > held[0]:
                best[key] = (rank, [(source, target)])
            elif rank == held[0]:
                held[1].append((source, target))
    for _, found in best.values():
        yield from found


def summary(pairs: list[Pair], skipped: int) -> str:
    """The last line. Bias: the median signed error towards the stronger accelerator; over both
    directions of a pair it would be zero by construction."""
    if not pairs:
        return f"median error - %, p90 - %, bias - %, pairs 0, skipped {skipped}"
    errors = sorted(abs(p.error) for p in pairs)
    upward = [p.error for p in pairs if p.upward] or [p.error for p in pairs]
    return (
        f"median error {statistics.median(errors) * 100:.1f} %, "
        f"p90 {errors[int(0.9 * (len(errors) - 1))] * 100:.1f} %, "
        f"bias {statistics.median(upward) * 100:+.1f} %, pairs {len(pairs)}, skipped {skipped}"
    )


def print_pairs(pairs: list[Pair]) -> None:
    by: dict[tuple[str, str], list[Pair]] = defaultdict(list)
    for pair in pairs:
        by[(pair.source.accelerator, pair.target.accelerator)].append(pair)
    for (source, target), found in sorted(by.items()):
        errors = [abs(p.error) * 100 for p in found]
        print(f"\n{source} -> {target}: {len(found)} pairs, "
              f"median error {statistics.median(errors):.1f} %")  # fmt: skip
        print(f"  {'workload':32} {'task':5} {'precision':9} {'batch':>6} {'n':>2} "
              f"{'measured':>11} {'projected':>11} {'error':>8}  unit")  # fmt: skip
        for pair in sorted(found, key=lambda p: (p.target.workload, p.target.task, p.target.batch)):
            print(_line(pair))


def _line(pair: Pair) -> str:
    row = pair.target
    ratio = pair.projected_s / (row.step_s or 1.0)
    projected = row.value * ratio if row.unit in table.PER_TIME else row.value / ratio
    return (
        f"  {row.workload[:32]:32} {row.task:5} {row.precision:9} {row.batch:6d} {row.count:2d} "
        f"{row.value:11.5g} {projected:11.5g} {pair.error * 100:+7.1f} %  {row.unit}"
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python benchmarks/projection", description=__doc__)
    parser.add_argument("file", type=Path, help="a table in the format of throughput.csv")
    parser.add_argument("--summary", action="store_true", help="the last lines only")
    parser.add_argument(
        "--fit", action="store_true",
        help="fit the model's parameters on half of the workloads, report on the other, both ways",
    )  # fmt: skip
    asked = parser.parse_args(argv)
    try:
        rows, left_out = table.read(asked.file)
        from . import workloads  # noqa: F401  torch, once the file is known to be readable
    except (OSError, KeyError, UnicodeDecodeError) as error:
        print(f"projection: cannot read {asked.file}: {error}", file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"projection: {error}; install accelprof[projection]", file=sys.stderr)
        return 2
    skipped: Counter[str] = Counter({"doubtful or incomplete row": left_out})
    built = _built(groups(rows, skipped), skipped)
    if asked.fit:
        from . import fit

        return fit.report(built)
    model = curves.parameters()
    pairs = [pair for group, made in built for pair in pairs_of(group, made, model)]
    if not asked.summary:
        print_pairs(pairs)
    print("\nskipped:")
    for reason, number in skipped.most_common():
        print(f"  {number:6d} {reason}")
    print()
    print(summary(pairs, skipped.total()))
    return 0


def _built(found: list[list[Row]], skipped: Counter[str]) -> list[tuple[list[Row], Built]]:
    builder = Builder()
    kept = []
    for group in found:
        made = builder.build(group[0])
        if isinstance(made, str):
            skipped[f"{group[0].workload}: {made}"] += len(group)
        else:
            kept.append((group, made))
    return kept
