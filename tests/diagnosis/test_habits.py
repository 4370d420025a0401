"""Findings from what the job's own code does, as the hooks told it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from golden import judged
from made_runs import T0, Run
from test_rules import in_process, loop, python_gap, small_ops, with_workers

from accelprof.profiler.diagnosis import diagnose
from accelprof.profiler.diagnosis.model import Clear
from accelprof.profiler.report import Finding

Make = Callable[[], Run]


def finding(run: Run, id: str) -> Finding:
    return next(f for f in diagnose(run, now_ns=T0).findings if f.id == id)


def emptying(calls: int) -> Run:
    return loop().fact("emptied", calls=1, where="train.py:30").fact(
        "emptied", calls=calls, where="train.py:30").process()  # fmt: skip


def wrapped(name: str, devices: int) -> Run:
    return loop().fact("parallel", name=name, devices=devices).process()


def traced(run: Run, by: str) -> Run:
    run.db.execute("UPDATE process SET facts = ?", [f'[{{"k": "traced", "by": ["{by}"]}}]'])
    return run


@pytest.mark.parametrize(("id", "fires", "clear"), [
    ("synchronisation", lambda: emptying(10), lambda: emptying(1)),
    ("gil", lambda: wrapped("DataParallel", 4), lambda: wrapped("DistributedDataParallel", 4)),
])  # fmt: skip
def test_fires_and_is_clear(id: str, fires: Make, clear: Make) -> None:
    found = finding(fires(), id)
    assert found.evidence and found.advice and found.speedup_limit is None
    assert isinstance(judged(id, fires(), clear()), Clear)


def test_emptying_the_cache_says_where_and_not_that_it_is_never_right() -> None:
    found = finding(emptying(10), "synchronisation")
    assert "train.py:30: at least 10 calls in 60 steps" in found.evidence[0].text
    assert "every few hundred steps" in found.advice[0]
    assert found.severity == "info"  # on a CPU it does nothing


@pytest.mark.parametrize(("run", "id"), [(small_ops, "small-kernels"), (python_gap, "python")])
def test_a_debugger_is_named_before_the_code_is_blamed(run: Make, id: str) -> None:
    found = finding(traced(run(), "pydevd"), id)
    assert found.advice[0].startswith("measure without pydevd")
    assert any("pydevd runs at each line" in e.text for e in found.evidence)
    assert not any("measure without" in line for line in finding(run(), id).advice)


def remade(times: int, persistent: bool = False) -> Run:
    """Workers that start at every 20th step, of `times` loaders made at one line."""
    run = loop(
        first_of_epoch=lambda i: i % 20 == 0, data_wait=0.5,
        duration=lambda i: 50.0 + (900.0 if i % 20 == 0 else 0.0),
        iterator=lambda i: 900.0 if i % 20 == 0 else 0.0,
    )  # fmt: skip
    for number in range(times):
        run.fact("loader", id=number + 1, num_workers=2, length=20, persistent=persistent,
                 where="train.py:12")  # fmt: skip
    return run.process().batches(60, 10, 10, workers=2)


def test_a_loader_made_anew_each_epoch_is_told_to_be_made_once() -> None:
    for persistent in (False, True):  # which keeps no workers that are thrown away with the loader
        (line,) = finding(remade(3, persistent), "worker-restart").advice
        assert "make the DataLoader of train.py:12 once" in line
    (line,) = finding(remade(1), "worker-restart").advice
    assert line.startswith("DataLoader(..., persistent_workers=True)")


def test_copies_inside_the_dataset_come_before_workers() -> None:
    run = in_process(39.0)
    facts = '[{"k": "loader", "id": 1, "num_workers": 0}, {"k": "copy_in_data", "where": "d.py:7"}]'
    run.db.execute("UPDATE process SET facts = ?", [facts])
    found = finding(run, "loader-in-process")
    assert found.advice[0].startswith("return CPU tensors from the Dataset")
    assert any("d.py:7" in e.text for e in found.evidence)


def test_slow_reads_say_which_mount_they_are_from() -> None:
    mount = {"mount": "/data", "type": "nfs4", "source": "filer:/x", "remote": True}
    run = with_workers(80.0, 8.0, 0.2).event("reads-from", **mount)
    texts = [e.text for e in finding(run, "storage").evidence]
    assert any("/data are read: a mount of nfs4 from filer:/x, another machine" in t for t in texts)
