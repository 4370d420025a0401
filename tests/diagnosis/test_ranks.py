"""Several ranks and nodes: the slowest path, who holds the others up, clocks, many ranks."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelprof.profiler.diagnosis import diagnose, examine, ranks
from accelprof.profiler.diagnosis.model import Steady, Step
from accelprof.profiler.report import Finding, Report

from .made_runs import CALIBRATION, MS, T0, Run, op

Work = Callable[[int, int], dict[str, float]]  # (rank, step) -> own time by phase, ms


def add_ranks(run: Run, numbers: range, world: int, work: Work, steps: int = 40) -> Run:
    """Ranks that step together: each waits in its collectives for the slowest of the world."""
    for rank in numbers:
        lengths = [max(sum(work(r, i).values()) for r in range(world)) + 2 for i in range(steps)]

        def phase(name: str, rank: int = rank) -> Callable[[int], float]:
            return lambda number: work(rank, number).get(name, 0.0)

        run.t_ns = T0
        run.steps(
            steps, 0.0, pid=100 + rank, rank=rank, duration=lengths.__getitem__,
            collective=lambda i, rank=rank, lengths=lengths: (
                lengths[i] - sum(work(rank, i).values())
            ),
            **{name: phase(name) for name in ("data_wait", "forward", "backward", "optimizer")},
        )  # fmt: skip
        run.process(100 + rank, "rank", rank=rank)
    return run


def usual(rank: int, step: int) -> dict[str, float]:
    return {"data_wait": 1.0, "forward": 10.0, "backward": 20.0, "optimizer": 2.0}


def constant(rank: int, step: int) -> dict[str, float]:
    return usual(rank, step) | ({"data_wait": 40.0} if rank == 2 else {})


def rotating(rank: int, step: int) -> dict[str, float]:
    return usual(rank, step) | ({"backward": 60.0} if step % 4 == rank else {})


def found(report: Report, id: str) -> Finding | None:
    return next((f for f in report.findings if f.id == id), None)


def of_four(work: Work) -> Report:
    return diagnose(add_ranks(Run(), range(4), 4, work), now_ns=T0)


def test_a_constant_straggler_is_the_path_and_is_named_with_what_it_loses() -> None:
    report = of_four(constant)
    straggler = found(report, "straggler")
    assert straggler is not None and "Rank 2" in straggler.title
    assert "100 %" in straggler.title
    assert any("waiting for its data" in e.text for e in straggler.evidence)
    assert straggler.speedup_limit == pytest.approx(74 / 35, abs=0.05)
    # The slowest path is rank 2's: its wait for data, not the others' wait for it
    assert report.verdict.bottleneck == "input-bound" and "rank 2" in report.verdict.headline
    assert report.time.shares["input"] == pytest.approx(40 / 74, abs=0.02)
    rows = {r["rank"]: r for r in report.ranks}
    assert rows[2]["slowest_share"] == 1.0 and rows[0]["slowest_share"] == 0.0
    assert rows[0]["wait_ms"] == pytest.approx(41.0) and rows[2]["wait_ms"] == pytest.approx(2.0)
    assert rows[2]["own_ms"] == pytest.approx(72.0)


def test_what_a_straggler_does_need_not_be_known_to_name_it() -> None:
    """Rank 2 spends 60 ms in code of its own that no hook and no stack sees."""

    def sleeping(rank: int, step: int) -> dict[str, float]:
        return usual(rank, step) | ({"own": 60.0} if rank == 2 else {})

    report = of_four(sleeping)
    assert report.time.shares["other"] > 0.5
    assert report.verdict.bottleneck == "communication-bound"
    assert report.verdict.cause == "straggler" and report.verdict.confidence != "high"
    assert "rank 2" in report.verdict.headline and "its own code" in report.verdict.headline


def test_a_rank_that_sleeps_in_its_own_code_is_a_straggler_and_no_input() -> None:
    def sleeping(rank: int, step: int) -> dict[str, float]:
        return usual(rank, step) | {"data_wait": 0.0} | ({"own": 60.0} if rank == 2 else {})

    run = add_ranks(Run(), range(4), 4, sleeping)
    run.stacks({"<module> (/job/train.py:10)": 80, "forward (/job/net.py:3)": 10}, pid=102)
    run.add("process_sample", [{"t_ns": T0 + i * 100 * MS, "pid": 102, "cpu_cores": 0.1,
                                "rss_bytes": 1 << 28} for i in range(20)])  # fmt: skip
    found = diagnose(run, now_ns=T0)
    assert found.verdict.bottleneck == "communication-bound", found.verdict.headline
    assert found.verdict.cause == "straggler"
    assert any("/job/train.py:10 <module>" in e.text for e in found.verdict.evidence)
    assert not any("num_workers=1" in line for f in found.findings for line in f.advice)


def test_ranks_that_take_turns_are_told_from_one_that_is_slow() -> None:
    straggler = found(of_four(rotating), "straggler")
    assert straggler is not None and "take turns" in straggler.title
    assert any("backward" in e.text for e in straggler.evidence)
    # and each rank by itself would have said that it waits for the others
    assert of_four(rotating).time.shares["communication"] < 0.05


def test_equal_ranks_hold_nobody_up() -> None:
    report = of_four(usual)
    assert not {f.id for f in report.findings} & {"straggler", "rank-imbalance"}
    assert found(report, "exposed-collective") is None


def test_collectives_that_even_the_slowest_rank_waits_for_are_exposed() -> None:
    run = Run().fact("parallel", name="DistributedDataParallel", bytes=400_000_000, unused=False)
    for rank in (0, 1):
        run.t_ns = T0
        run.steps(40, 100.0, pid=100 + rank, rank=rank, forward=20.0, backward=20.0,
                  collective=58.0, micro_batches=4)  # fmt: skip
        run.process(100 + rank, "rank", rank=rank)
    report = diagnose(run, now_ns=T0)
    assert report.verdict.bottleneck == "communication-bound"
    assert report.verdict.cause == "exposed-collective"
    exposed = found(report, "exposed-collective")
    assert exposed is not None and any("400 MB" in e.text for e in exposed.evidence)
    assert any("no_sync" in line and "4 backwards" in line for line in exposed.advice)


@pytest.mark.parametrize(("at_ms", "bottleneck"), [(50, "memory-bound"), (5, "inconclusive")])
def test_work_that_the_exchange_of_gradients_stretches_does_not_outweigh_it(
    at_ms: float, bottleneck: str
) -> None:
    """Two ranks of one CPU; `at_ms` of the 58 ms of work is what its bytes need at the ceiling."""
    run = Run().calibrated()
    for rank in (0, 1):
        run.t_ns = T0
        run.steps(40, 100.0, pid=100 + rank, rank=rank, forward=28.0, backward=30.0,
                  collective=40.0)  # fmt: skip
        run.process(100 + rank, "rank", rank=rank)
    moved = at_ms / 2e3 * CALIBRATION["bytes_per_s"]  # each rank gets half of the ceiling
    run.ops([op("aten::mm", 58, flops=1e6, bytes=moved, calls=12)], window_ms=100, pid=100)
    verdict = diagnose(run, now_ns=T0).verdict
    assert verdict.bottleneck == bottleneck, verdict.headline


@pytest.mark.parametrize(("given", "wrapped", "samples"), [
    ({}, True, (32, 16)), ({}, False, (32,)), ({"samples_per_step": 32}, True, (32,)),
])  # fmt: skip
def test_samples_are_those_of_all_ranks_where_each_has_its_own(
    given: dict[str, int], wrapped: bool, samples: tuple[int, ...]
) -> None:
    """Ranks without DDP may work on one batch together; a number that was given is the job's."""
    run = Run(settings=json.dumps(given))
    if wrapped:
        run.fact("parallel", name="DistributedDataParallel", bytes=4, unused=False)
    for rank in (0, 1):
        run.t_ns = T0
        run.steps(40, 50.0, pid=100 + rank, rank=rank, forward=20.0 - rank, backward=20.0,
                  collective=5.0 + rank, samples=32 // (1 + rank))  # fmt: skip
        run.process(100 + rank, "rank", rank=rank)
    report = diagnose(run, now_ns=T0)
    assert report.time.samples_per_s == pytest.approx(sum(samples) / 0.05)


def test_without_waits_nothing_is_said_of_stragglers() -> None:
    run = Run()
    for rank in (0, 1):
        run.t_ns = T0
        run.steps(40, 50.0, pid=100 + rank, rank=rank, forward=20.0, backward=25.0)
        run.process(100 + rank, "rank", rank=rank)
    report = diagnose(run, now_ns=T0)
    assert found(report, "straggler") is None and len(report.ranks) == 2
    assert report.ranks[0]["wait_ms"] is None  # not observed, which is not 0


# -- nodes -------------------------------------------------------------------------------------


def test_run_files_of_two_nodes_are_one_job_and_their_clocks_are_compared() -> None:
    ahead = 350 * MS
    first = add_ranks(Run(host="node-a", name="job"), range(2), 4, constant)
    second = Run(host="node-b", started_ns=T0 + ahead, id="20261201-000001-case-0001")
    add_ranks(second, range(2, 4), 4, constant)
    jitter = random.Random(1)
    second.db.execute(f"UPDATE step SET t_ns = t_ns + {ahead}")
    second.db.execute("UPDATE step SET t_ns = t_ns + ?", [jitter.randrange(MS)])
    report, view = examine(first, second, now_ns=T0)
    assert report.time.ranks == 4 and [r["rank"] for r in report.ranks] == [0, 1, 2, 3]
    assert report.run.host == "node-a, node-b" and view.node == 1
    assert [r["host"] for r in report.ranks] == ["node-a", "node-a", "node-b", "node-b"]
    assert report.ranks[0]["clock_ahead_ms"] == 0.0
    assert report.ranks[3]["clock_ahead_ms"] == pytest.approx(350, abs=1.5)
    assert any("node-b +350" in n or "node-b +351" in n for n in report.quality.notes)
    straggler = found(report, "straggler")
    assert straggler is not None and "Rank 2" in straggler.title


def test_nodes_without_common_steps_say_that_clocks_are_not_compared() -> None:
    first = add_ranks(Run(host="a"), range(1), 2, usual)
    second = add_ranks(Run(host="b"), range(1, 2), 2, usual, steps=3)
    report, _ = examine(first, second, now_ns=T0)
    assert any("could not be compared" in note for note in report.quality.notes)


def test_64_ranks_are_reported_in_5_s_of_cpu() -> None:
    nodes = []
    for node in range(8):
        run = Run(host=f"node-{node}")
        for rank in range(node * 8, node * 8 + 8):
            run.t_ns = T0
            slow = 30.0 if rank == 37 else 0.0
            run.steps(2000, 80.0, pid=100 + rank, rank=rank, forward=10.0, backward=20.0 + slow,
                      collective=45.0 - slow)  # fmt: skip
            run.process(100 + rank, "rank", rank=rank)
        nodes.append(run)
    started = time.process_time()
    report, _ = examine(*nodes, now_ns=T0)
    spent = time.process_time() - started
    assert report.time.ranks == 64 and spent < 5
    straggler = found(report, "straggler")
    assert straggler is not None and "Rank 37" in straggler.title


# -- pure ----------------------------------------------------------------------------------------

_EMPTY: dict[str, Any] = dict.fromkeys(Step._fields)
steps = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 10**9), st.integers(0, 10**9)), max_size=40
)


@settings(max_examples=60)
@given(st.dictionaries(st.integers(1, 5), steps, max_size=5))
def test_a_path_takes_each_step_from_one_rank_and_never_waits_longer(
    made: dict[int, list[tuple[int, int, int]]],
) -> None:
    peers = {
        ranks.Peer(0, pid): Steady(steps=tuple(
            Step(**(_EMPTY | {"pid": pid, "rank": pid, "step": n, "t_ns": n, "duration_ns": length,
                              "collective_ns": wait}))
            for n, length, wait in {one[0]: one for one in found}.values()
        ))
        for pid, found in made.items()
    }  # fmt: skip
    path = ranks.slowest_path(peers)
    if path.compared is None:
        return
    assert 0 <= path.compared.excess_share <= 1 and 0 < path.compared.recurrence <= 1
    for step in path.steady.steps:
        same = [s for part in peers.values() for s in part.steps if s.step == step.step]
        most = max(map(ranks.own_ns, same))
        assert step in same and ranks.own_ns(step) <= most
    assert sum(path.compared.slowest.values()) == pytest.approx(1)
