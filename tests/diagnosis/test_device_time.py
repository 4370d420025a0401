"""Shares where the device was timed: what it could not hide is a wait, what it took is a copy."""

from __future__ import annotations

import pytest
from made_runs import MS, Run

from accelprof.profiler.diagnosis import view

PHASES = {"data_wait": 30.0, "h2d": 0.1, "forward": 4.0, "backward": 4.0, "optimizer": 2.0}


def shares(run: Run, busy: float) -> dict[str, float]:
    found = view.load(run.process().gpu(busy=busy), run.t_ns).shares
    assert sum(found.values()) == pytest.approx(1)
    return found


def test_a_wait_behind_queued_work_is_not_input() -> None:
    """The same host times: a busy device hides the wait, an idle one does not."""
    hidden = shares(Run().steps(60, 100.0, **PHASES, data_wait_device_ns=1 * MS), 0.9)
    exposed = shares(Run().steps(60, 100.0, **PHASES, data_wait_device_ns=29 * MS), 0.6)
    blind = shares(Run().steps(60, 100.0, **PHASES), 0.9)
    assert hidden["input"] == pytest.approx(0.01, abs=0.002)
    assert exposed["input"] == pytest.approx(0.29, abs=0.01)
    assert hidden["input"] < blind["input"] < exposed["input"]


def test_a_copy_takes_what_it_takes_the_device() -> None:
    """A call of 0.1 ms that starts a copy of 20 ms."""
    run = Run().steps(60, 100.0, **PHASES, data_wait_device_ns=0, h2d_device_ns=20 * MS)
    assert shares(run, 0.75)["transfer"] == pytest.approx(0.2, abs=0.01)
    assert shares(Run().steps(60, 100.0, **PHASES), 0.75)["transfer"] < 0.002


def test_steps_that_were_not_timed_count_like_those_that_were() -> None:
    run = Run()
    for _ in range(10):
        run.steps(1, 100.0, **PHASES, data_wait_device_ns=3 * MS, h2d_device_ns=5 * MS)
        run.steps(5, 100.0, **PHASES)
    found = shares(run, 0.85)
    assert found["input"] == pytest.approx(0.03, abs=0.005)
    assert found["transfer"] == pytest.approx(0.05, abs=0.005)


def test_a_file_of_an_earlier_version_has_no_device_time() -> None:
    run = Run().steps(60, 100.0, **PHASES)
    for phase in ("data_wait", "h2d", "forward", "backward", "optimizer"):
        run.db.execute(f"ALTER TABLE step DROP COLUMN {phase}_device_ns")
    assert shares(run, 0.9)["input"] > 0
