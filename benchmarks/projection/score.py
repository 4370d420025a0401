"""Projected against measured throughput, for every pair of accelerators of a table."""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from accelprof.profiler.advisor.curves import Parameters

from . import errors, models, software, table
from .columns import Built, Columns, target_of
from .sweep import Series, Times, project
from .table import Row

TASKS = ("train", "infer")


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
    target = target_of(row)
    return float(target.peak) if target else 0.0


def fused_attention(row: Row) -> bool:
    """Whether attention was one kernel: engines, and timm on PyTorch 2."""
    if software.is_engine(row.framework):
        return True
    if "llm-foundry" in row.framework:
        return True  # its tables are measured with flash attention
    torch2 = ("timm", "diffusers")
    return any(n in row.framework for n in torch2) and row.library.startswith("pytorch 2")


def groups(rows: Iterable[Row], skipped: Counter[str]) -> list[list[Row]]:
    """Rows that may be compared, more than one accelerator in each; counts the others."""
    found: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row.step_s is None:
            skipped[f"{row.unit} of {row.workload} {row.shape}: no step follows from it"] += 1
        elif row.task not in TASKS:
            skipped[f"task {row.task or '-'}: neither training nor inference"] += 1
        elif table.accelerator(row.accelerator) is None:
            skipped[f"accelerator {row.accelerator} is in no table"] += 1
        elif target_of(row) is None:
            skipped[f"{row.accelerator} does not run {row.precision}"] += 1
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
        except Exception as error:  # a library's model that refuses the size
            return f"is not built at {row.shape or 'no shape'} ({type(error).__name__})"
        try:
            return operators.DryRun(work.step, fused), work.parameters, work.tensors
        except Exception as error:  # any model's forward may refuse a meta tensor
            return f"does not run on the meta device ({type(error).__name__})"


class Table:
    """Groups of rows with their operators, as columns, and the pairs among them."""

    def __init__(self, groups: Sequence[tuple[list[Row], Built]]) -> None:
        self.rows = [row for group, _ in groups for row in group]
        self.columns = Columns(self.rows, [made for group, made in groups for _ in group])
        self.series = Series(self.rows)
        where = {id(row): index for index, row in enumerate(self.rows)}
        found = [(where[id(s)], where[id(t)]) for g, _ in groups for s, t in _comparable(g)]
        self.sources = torch.tensor([s for s, _ in found], dtype=torch.long)
        self.targets = torch.tensor([t for _, t in found], dtype=torch.long)

    def projected(self, model: Parameters) -> torch.Tensor:
        """Logarithm of the projected step of each pair."""
        columns = self.columns
        times = Times(
            columns.device_s(model).log(), columns.host_s(model).log(),
            (columns.serial_s(model) + 1e-12).log(),
        )  # fmt: skip
        return project(
            columns.step_s.log(), times, self.series, (self.sources, self.targets), model
        )

    def errors(self, model: Parameters) -> torch.Tensor:
        """Logarithm of measured over projected step: of projected over measured throughput."""
        return self.columns.step_s.log()[self.targets] - self.projected(model)

    def pairs(self, model: Parameters) -> list[Pair]:
        with torch.no_grad():
            steps = self.projected(model).exp().tolist()
        ends = zip(self.sources.tolist(), self.targets.tolist(), steps, strict=True)
        return [Pair(self.rows[s], self.rows[t], step) for s, t, step in ends]


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
    sizes = sorted(abs(p.error) for p in pairs)
    upward = [p.error for p in pairs if p.upward] or [p.error for p in pairs]
    return (
        f"median error {statistics.median(sizes) * 100:.1f} %, "
        f"p90 {sizes[int(0.9 * (len(sizes) - 1))] * 100:.1f} %, "
        f"bias {statistics.median(upward) * 100:+.1f} %, pairs {len(pairs)}, skipped {skipped}"
    )


def print_pairs(pairs: list[Pair]) -> None:
    by: dict[tuple[str, str], list[Pair]] = defaultdict(list)
    for pair in pairs:
        by[(pair.source.accelerator, pair.target.accelerator)].append(pair)
    for (source, target), found in sorted(by.items()):
        sizes = [abs(p.error) * 100 for p in found]
        print(f"\n{source} -> {target}: {len(found)} pairs, "
              f"median error {statistics.median(sizes):.1f} %")  # fmt: skip
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
    except (OSError, ValueError, csv.Error) as error:
        print(f"projection: cannot read {asked.file}: {error}", file=sys.stderr)
        return 2
    skipped: Counter[str] = Counter({"doubtful or incomplete row": left_out})
    built = _built(groups(rows, skipped), skipped)
    if asked.fit:
        from . import fit

        return fit.report([(group, made) for group, made in built if not _ours(group[0])])
    pairs = Table(built).pairs(software.parameters()) if built else []
    if not asked.summary:
        print_pairs(pairs)
    if pairs:
        print("\nerrors, with the pairs among the worst tenth of all:")
        print("\n".join(errors.tables(pairs)))
    print("\nskipped:")
    for reason, number in skipped.most_common():
        print(f"  {number:6d} {reason}")
    print()
    print(f"with the models of models.py, which no fit has seen: {summary(pairs, skipped.total())}")
    ours = sum(len(group) for group, _ in built if _ours(group[0]))
    libraries = [pair for pair in pairs if not _ours(pair.target)]
    print(summary(libraries, skipped.total() + ours))
    return 0


def _ours(row: Row) -> bool:
    """Whether the row's model is none of torchvision, timm or transformers, but of models.py."""
    return models.known(row.workload) is not None


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
