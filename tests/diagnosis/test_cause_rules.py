"""Golden cases of causes and findings of the host: each fires, is clear, and cannot tell."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from golden import judged
from made_runs import MS, T0, Run, op
from test_rules import (
    in_process,
    loop,
    python_gap,
    small_ops,
    split_loop,
    waiting,
    with_workers,
)

from accelprof.profiler.diagnosis import diagnose
from accelprof.profiler.diagnosis.model import Clear, Undecidable
from accelprof.profiler.report import Finding

Make = Callable[[], Run]
SITE = "/v/lib/python3.11/site-packages"
WORKER = f"_worker_loop ({SITE}/torch/utils/data/_utils/worker.py:349)"
REMOTE = f"{WORKER};read (/job/data.py:5);get ({SITE}/requests/api.py:73);recv (/lib/socket.py:1)"
LOCAL = f"{WORKER};read (/job/data.py:5)"
MAIN = "<module> (/job/train.py:9)"
COMPILE = f"{MAIN};_fn ({SITE}/torch/_dynamo/eval_frame.py:1);compile " + (
    f"({SITE}/torch/_dynamo/convert_frame.py:1);step ({SITE}/torch/_dynamo/symbolic_convert.py:2)"
)


def worker_stacks(run: Run, frames: dict[str, int]) -> Run:
    """Stacks of a loader worker, and a training thread that waits for it."""
    run.process(100, "worker", worker=0, facts="[]")
    return run.stacks(frames, pid=100).stacks(
        {f"{MAIN};__next__ ({SITE}/torch/utils/data/d.py:1)": 40}
    )


def slow_reads(frames: dict[str, int], fetch: float = 80.0, cpu: float = 8.0) -> Run:
    return worker_stacks(with_workers(fetch, cpu, 0.2), frames)


def network_counters(received: float, disk: float) -> Run:
    run = with_workers(80.0, 8.0, 0.2, workers=1)
    run.process(100, "worker", worker=0, facts="[]")
    run.add("host_sample", [
        {"t_ns": T0 + i * 100 * MS, "cpu_share": 0.2, "net_rx_bytes_per_s": received}
        for i in range(20)
    ])  # fmt: skip
    return run.add("process_sample", [
        {"t_ns": T0 + i * 100 * MS, "pid": 100, "rchar_bytes_per_s": 50e6,
         "read_bytes_per_s": disk, "rss_bytes": 1 << 28}
        for i in range(20)
    ])  # fmt: skip


def handed_over(wait_cpu: float | None, fetch: float = 10.0) -> Run:
    run = loop(data_wait=40.0, data_wait_cpu=wait_cpu, forward=3.0, backward=4.0, optimizer=1.0)
    run.fact("loader", id=1, num_workers=2, length=100).process()
    return run.batches(59, fetch, fetch, workers=2).host(0.9)


def sampling(inside: int, waits: int = 20) -> Run:
    """Quick workers; the training thread is in its batch sampler, or waits for a batch."""
    run, at = handed_over(38.0), f"{MAIN};__next__ ({SITE}/torch/utils/data/dataloader.py:1)"
    return run.stacks({at: waits, f"{at};ByLength.__iter__ (/job/data.py:12)": inside})


def beside(thread_samples: int, cores: float | None, *, stacks: bool = True) -> Run:
    """A loop of Python with another thread that runs, too."""
    run = python_gap() if stacks else small_ops()
    run.add("stack", [
        {"t_ns": T0 + 100 * MS, "pid": 10, "thread": "prefetcher",
         "frames": "run (/job/train.py:70);parse (/job/train.py:80)", "samples": thread_samples},
        {"t_ns": T0 + 100 * MS, "pid": 10, "thread": "idle",
         "frames": "run (/job/train.py:70);wait (/usr/lib/python3.11/threading.py:1)",
         "samples": 100},
    ] if stacks else [])  # fmt: skip
    if cores is not None:
        run.add("process_sample", [{"t_ns": T0 + i * 100 * MS, "pid": 10, "cpu_cores": cores,
                                    "rss_bytes": 1 << 28} for i in range(20)])  # fmt: skip
    return run


def compiling(samples: int, others: int = 60) -> Run:
    run = loop().process()
    return run.stacks({COMPILE: samples, f"{MAIN};forward (/job/model.py:3)": others})


def of_sizes(size: Callable[[int], int | None], cost: Callable[[int], float]) -> Run:
    return loop(duration=cost, samples=size, data_wait=0.0, forward=5.0, backward=5.0).process()


def died(memory: int | None, *, limit: int = 8 << 30, signal: int | None = 9) -> Run:
    """A job that was killed when it held so much of its control group's memory."""
    run = loop().process().host(0.5, cgroup_memory_limit_bytes=limit, memory_total_bytes=64 << 30)
    if memory is not None:
        run.add("process_sample", [
            {"t_ns": T0 + 100 * MS, "pid": 10, "rss_bytes": memory // 4},
            {"t_ns": T0 + 100 * MS, "pid": 100, "rss_bytes": memory - memory // 4},
        ])  # fmt: skip
        run.process(100, "worker", worker=3, facts="[]")
    return run.event("end", state="killed", signal=signal)


def failing(what: str, text: str, error: str = "RuntimeError") -> Run:
    run = waiting(num_workers=2).fact("failure", what=what, error=error, text=text)
    return run.process()


KILLED = "DataLoader worker (pid 4242) is killed by signal: Killed. "

# finding: (fires, clear, cannot tell)
CASES: dict[str, tuple[Make, Make, Make]] = {
    "remote-data": (
        lambda: slow_reads({REMOTE: 30, LOCAL: 5}), lambda: slow_reads({LOCAL: 35}),
        lambda: with_workers(80.0, 8.0, 0.2)),
    "hand-off": (lambda: handed_over(38.0), lambda: handed_over(2.0), lambda: handed_over(None)),
    "gil": (lambda: beside(90, 1.0), lambda: beside(90, 1.9), lambda: beside(90, None)),
    "recompiles": (lambda: compiling(30), lambda: compiling(0), lambda: compiling(5, 0)),
    "shape-variation": (
        lambda: of_sizes(lambda i: 8 + i % 12, lambda i: 30.0 + 5 * (i % 12)),
        lambda: of_sizes(lambda i: 8 + i % 12, lambda i: 50.0 + i % 7),
        lambda: of_sizes(lambda i: None, lambda i: 50.0)),
    "out-of-memory": (
        lambda: died(int(7.8 * 2**30)), lambda: died(2 << 30), lambda: died(None)),
    "worker-died": (
        lambda: failing("worker", KILLED), lambda: waiting(num_workers=2).process(),
        lambda: Run().fact("loader", id=1, num_workers=2).process()),
    "upgrade-would-not-help": (
        lambda: in_process(39.0), lambda: loop(evaluation=1.0).calibrated().process().ops(
            [{"name": "aten::mm", "phase": "forward", "shapes": "[[512,512],[512,512]]",
              "dtype": "fp32", "calls": 1, "flops": 18e9, "bytes": 1e6, "time_ns": 45 * MS,
              "host_ns": 45 * MS}]),
        lambda: loop().process()),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_fires(name: str) -> None:
    found = {f.id: f for f in diagnose(CASES[name][0](), now_ns=T0).findings}
    assert name in found, sorted(found)
    assert found[name].evidence and found[name].advice


@pytest.mark.parametrize("name", CASES)
def test_clear(name: str) -> None:
    assert isinstance(judged(name, CASES[name][0](), CASES[name][1]()), Clear)


@pytest.mark.parametrize("name", CASES)
def test_cannot_tell(name: str) -> None:
    found = judged(name, CASES[name][0](), CASES[name][2]())
    assert isinstance(found, Undecidable) and found.missing


def finding(run: Run, id: str) -> Finding:
    return next(f for f in diagnose(run, now_ns=T0).findings if f.id == id)


def texts(found: Finding) -> str:
    return " ".join([*(e.text for e in found.evidence), *found.advice])


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (lambda: slow_reads({REMOTE: 30, LOCAL: 5}), "remote-data"),
        (lambda: network_counters(48e6, 0.0), "remote-data"),
        (lambda: network_counters(1e3, 49e6), "storage"),
        (lambda: slow_reads({REMOTE: 30}, 80.0, 79.0), "too-few-workers"),
        (lambda: handed_over(38.0), "hand-off"),
        (lambda: sampling(20), "loader-in-process"),
        (lambda: sampling(4), "hand-off"),
        (lambda: handed_over(38.0, fetch=300.0), "decode-cpu"),
        (lambda: beside(90, 1.0), "gil"),
        (lambda: beside(10, 1.0), "python"),
    ],
)
def test_the_cause_of_the_verdict(make: Make, cause: str) -> None:
    found = diagnose(make(), now_ns=T0).verdict
    assert found.cause == cause, found.headline


def test_a_slow_sampler_is_named_and_nobody_is_told_to_change_workers() -> None:
    found = diagnose(sampling(20), now_ns=T0)
    assert "sampler" in found.verdict.headline and found.hotspots.input[0].where.startswith("/job")
    (cause,) = [f for f in found.findings if f.id == "loader-in-process"]
    assert "/job/data.py:12 ByLength.__iter__" in texts(cause)
    assert not {f.id for f in found.findings} & {"storage", "too-few-workers", "decode-cpu"}


def test_workers_that_suffice_on_average_are_not_to_be_fewer() -> None:
    """Two workers need 15 ms for a batch, steps take 10 ms: what is waited for is a burst."""
    (line, _) = finding(with_workers(15.0, 1.5, 0.2), "storage").advice
    assert "prefetch_factor" in line and "num_workers" not in line


def test_a_lock_that_is_shared_gives_back_no_more_than_the_other_thread_took() -> None:
    assert (finding(beside(100, 1.0), "gil").speedup_limit or 0) <= 2.0


def test_what_ran_out_and_who_held_it() -> None:
    said = texts(finding(died(int(7.8 * 2**30)), "out-of-memory"))
    assert "loader worker 3" in said and "above 8.6 GB" in said


def test_a_kill_counted_by_the_control_group_needs_no_guess() -> None:
    run = died(None, signal=None).event("oom-kill", count=1)
    assert "out-of-memory killer ended 1 process" in texts(finding(run, "out-of-memory"))


def test_device_memory_that_ran_out_is_told_apart_from_the_hosts() -> None:
    run = failing("memory", "CUDA out of memory. Tried to allocate 2.00 GiB", "OutOfMemoryError")
    assert finding(run, "out-of-memory").title == "Device memory ran out"


def test_how_a_worker_died_decides_the_advice() -> None:
    assert "out-of-memory killer" in texts(finding(failing("worker", KILLED), "worker-died"))
    bus = "DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that shm"
    assert "--shm-size" in texts(finding(failing("worker", bus), "worker-died"))


def test_more_workers_that_would_not_help_are_not_promised() -> None:
    """The card of a decoding job on full cores once read: more workers would not help (6.8x)."""
    found = finding(with_workers(90.0, 85.0, 0.99), "decode-cpu")
    assert found.advice[0].startswith("make a sample cheaper")
    assert found.speedup_limit == pytest.approx(5.0, rel=0.05)  # what no wait at all would bring


def test_a_job_without_a_free_core_is_not_told_of_workers() -> None:
    """Title and advice say the same: what workers would do is done on the same cores."""
    full = diagnose(in_process(39.0, host=1.0), now_ns=T0)
    (found,) = (f for f in full.findings if f.id == "loader-in-process")
    assert "no core is free for workers" in found.title
    assert "no core is free for workers" in full.verdict.headline
    assert "workers (num_workers=1 or more) would not help" in found.advice[0]
    roomy = finding(in_process(39.0), "loader-in-process")
    assert "(num_workers=0)" in roomy.title
    assert roomy.advice[0].startswith("DataLoader(..., num_workers=")


def test_workers_are_promised_what_the_cores_allow() -> None:
    """A batch of 85 ms CPU on two cores with 1.3 free: the wait does not vanish altogether."""
    found = finding(with_workers(90.0, 85.0, 0.35, workers=1), "too-few-workers")
    assert "num_workers=6" in found.advice[0]
    assert 1.1 < (found.speedup_limit or 0.0) < 3.0


def test_facts_that_are_no_failures_are_no_findings() -> None:
    run = loop().process(facts=json.dumps([{"k": "failure"}, {"k": "failure", "what": "x"}]))
    found: set[Any] = {f.id for f in diagnose(run, now_ns=T0).findings}
    assert not found & {"out-of-memory", "worker-died"}


def test_bursts_count_by_their_sum_and_not_by_the_median() -> None:
    """Four workers bring four batches at once: waits of 5, 1, 0, 77, 5, 1, 0, 80 ms."""
    waits = (5.0, 1.0, 0.0, 78.0)
    run = loop(duration=lambda i: 3.0 + waits[i % 4], data_wait=lambda i: waits[i % 4],
               forward=1.0, backward=1.0, optimizer=0.5, pre_forward=0.0)  # fmt: skip
    run.fact("loader", id=1, num_workers=4, length=60).process()
    report = diagnose(run.batches(59, 90.0, 85.0, workers=4).host(0.6), now_ns=T0)
    assert report.verdict.bottleneck == "input-bound" and report.time.shares["input"] > 0.8


def test_workers_whose_memory_grows_are_told_to_keep_no_python_objects() -> None:
    """Reference counts of a long list copy the pages that forked workers share."""
    run = loop(count=600).process().host(0.5, memory_total_bytes=16 << 30,
                                         memory_used_bytes=8 << 30)  # fmt: skip
    run.process(100, "worker", worker=0, facts="[]")
    run.add("process_sample", [
        {"t_ns": T0 + i * 500 * MS, "pid": pid,
         "pss_bytes": (400 << 20) + (i * 3 << 20) * (pid > 99)}
        for i in range(58) for pid in (10, 100)
    ])  # fmt: skip
    found = finding(run, "memory-growth")
    assert "loader workers" in found.title and "numpy" in found.advice[0]


@pytest.mark.parametrize(
    ("phases", "what"),
    [
        ({"data_wait": lambda i: 350.0 if i in (20, 40) else 1.0}, "waits for data"),
        ({"gc": lambda i: 300.0 if i in (20, 40) else 0.0}, "the garbage collector"),
        ({"samples": lambda i: 7 if i in (20, 40) else 32}, "batches of another size"),
        ({}, None),
    ],
)
def test_what_outlying_steps_coincide_with(phases: dict[str, Any], what: str | None) -> None:
    run = loop(duration=lambda i: 400.0 if i in (20, 40) else 50.0, **phases).process()
    said = [e.value for e in finding(run, "step-outliers").evidence if e.metric == "coincides_with"]
    assert said == ([what] if what else [])


TORCH = f"{SITE}/torch"
NEXT = f"main (/job/train.py:54);__next__ ({TORCH}/utils/data/dataloader.py:725)"
CALLS = {
    NEXT: 40, "main (/job/train.py:54)": 7,
    f"main (/job/train.py:58);backward ({TORCH}/autograd/__init__.py:395)": 50,
}  # fmt: skip


@pytest.mark.parametrize(("frames", "named", "not_named"), [
    ({}, "no line of the loop stands out", "/job/train.py"),
    ({"main (/job/train.py:57);metric (/job/train.py:4)": 60}, "/job/train.py:4 metric", ":54"),
    ({f"main (/job/train.py:56);Net.forward (/job/net.py:9);f ({TORCH}/nn/functional.py:1)": 60},
     "/job/net.py:9 Net.forward", ":58"),
])  # fmt: skip
def test_python_names_lines_that_are_neither_the_wait_nor_a_call_of_the_model(
    frames: dict[str, int], named: str, not_named: str
) -> None:
    run = split_loop(op("aten::mm", 3, flops=1e9, bytes=1e6), gap_ms=44, gap=40.0, forward=3.0,
                     backward=2.0, optimizer=1.0)  # fmt: skip
    run.process().stacks(CALLS | frames)
    [found] = [f for f in diagnose(run, now_ns=T0).findings if f.id == "python"]
    assert named in found.advice[0]
    assert not_named not in found.advice[0] + "".join(fact.text for fact in found.evidence)


@pytest.mark.parametrize("looked_at", [60, 40, 35, 10])
def test_a_batch_costs_the_same_however_many_were_looked_at(looked_at: int) -> None:
    """In the training process a close look is taken at some batches only."""
    run = loop(data_wait=40.0, forward=4.0, backward=4.0, optimizer=1.0)
    run.process().fact("loader", id=1, num_workers=0, batch_size=32)
    run.batches(looked_at, 40.0, 39.0)
    advice = finding(run, "loader-in-process").advice[0]
    assert "a batch costs 40.0 ms of which 39.0 ms CPU" in advice
