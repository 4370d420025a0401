"""Snapshots of finished and live runs."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import recording

from accelprof.storage.reader import RunReader, open_run
from accelprof.tui.feed import RunFeed
from accelprof.tui.model import Request

SECOND = 10**9


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run")
    recording.record(path)
    return path


@pytest.fixture
def reader(folder: Path) -> Iterator[RunReader]:
    with open_run(folder) as found:
        yield found


def test_a_finished_run_at_its_end(reader: RunReader) -> None:
    seen = RunFeed(reader).snapshot(Request(None, 100))
    assert (seen.name, seen.state, seen.live) == ("resnet", "finished", False)
    assert seen.cursor_ns == seen.ended_ns
    assert seen.report.verdict.bottleneck == "input-bound"
    assert seen.pace.steps_per_s == pytest.approx(6.8, abs=0.5)
    assert seen.pace.samples_per_s == pytest.approx(32 * (seen.pace.steps_per_s or 0))
    assert sum(seen.pace.shares.values()) == pytest.approx(1)
    assert [p.role for p in seen.processes] == ["main", "worker 0", "worker 1"]
    assert len(seen.machine.cores) == recording.CORES


def test_the_timeline_covers_the_run(reader: RunReader) -> None:
    seen = RunFeed(reader).snapshot(Request(None, 90))
    columns = seen.columns
    assert 80 <= len(columns) <= 90
    assert columns[0].from_ns == seen.started_ns
    assert columns[-1].to_ns >= seen.ended_ns
    assert all(a.to_ns == b.from_ns for a, b in itertools.pairwise(columns))
    assert all(sum(c.shares.values()) == pytest.approx(1) for c in columns if c.shares)
    assert sum(c.steps for c in columns) == 600
    # The first two seconds have no step; a checkpoint's long step fills the columns it spans
    assert not columns[0].shares
    assert all(c.shares for c in columns[3:])


def test_few_columns_for_slow_steps(tmp_path: Path) -> None:
    recording.record(tmp_path, steps=30)
    with open_run(tmp_path) as reader:
        seen = RunFeed(reader).snapshot(Request(None, 200))
        width = seen.columns[0].to_ns - seen.columns[0].from_ns
        assert width >= 2e6 * (seen.report.time.step_ms.p50 or 0)


def test_a_cursor_within_the_run(reader: RunReader) -> None:
    feed = RunFeed(reader)
    whole = feed.snapshot(Request(None, 100))
    early = feed.snapshot(Request(whole.started_ns + 10 * SECOND, 100))
    assert early.elapsed_s == pytest.approx(10)
    assert early.columns is whole.columns  # the picture stays, the cursor moves
    assert early.report is whole.report
    # The middle of the run is not input-bound
    middle = feed.snapshot(Request((whole.started_ns + whole.ended_ns) // 2, 100))
    assert middle.bottleneck_now != "input-bound"
    assert feed.snapshot(Request(0, 100)).cursor_ns == whole.started_ns
    assert feed.snapshot(Request(whole.ended_ns + SECOND, 100)).cursor_ns == whole.ended_ns
    assert feed.snapshot(Request(whole.started_ns, 100)).pace.steps_per_s is None


def test_an_empty_run(tmp_path: Path) -> None:
    recording.record(tmp_path, steps=0)
    with open_run(tmp_path) as reader:
        seen = RunFeed(reader).snapshot(Request(None, 100))
        assert seen.report.verdict.bottleneck == "inconclusive"
        assert seen.pace.shares == {}
        assert seen.step_ceiling_ms is None


def test_a_run_whose_recorder_died(tmp_path: Path) -> None:
    length = recording.record(tmp_path, state="running")
    with open_run(tmp_path) as reader:
        seen = RunFeed(reader).snapshot(Request(None, 100))
    assert seen.state == "lost"
    assert seen.length_s == pytest.approx(length / SECOND, abs=2)


def test_a_gpu(tmp_path: Path) -> None:
    recording.record(tmp_path, steps=50, gpu=True)
    with open_run(tmp_path) as reader:
        (card,) = RunFeed(reader).snapshot(Request(None, 100)).machine.accelerators
    assert card.name == "NVIDIA H100 80GB HBM3"
    assert card.memory_total_bytes == 80 << 30
    assert 0.2 < (card.busy or 0) < 0.5


LIVE = """
import sys
from pathlib import Path
sys.path.insert(0, {here!r})
import recording
recording.live(Path({folder!r}))
"""


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """A run that another process writes: a step with each line on its stdin."""
    script = LIVE.format(here=str(Path(__file__).parent), folder=str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield tmp_path, process
        process.kill()


def test_a_live_run_goes_on_and_ends(live: tuple[Path, subprocess.Popen[str]]) -> None:
    folder, process = live
    assert process.stdin is not None
    assert process.stdout is not None
    clock = [0.0]
    with open_run(folder) as reader:
        feed = RunFeed(reader, monotonic=lambda: clock[0])
        first = feed.snapshot(Request(None, 100))
        assert first.live
        assert first.state == "running"
        process.stdin.write("step\n")
        process.stdin.flush()
        process.stdout.readline()
        clock[0] += 1
        assert feed.snapshot(Request(None, 100)).report is first.report  # too soon to judge again
        clock[0] += 100
        again = feed.snapshot(Request(None, 100))
        assert again.report.time.steps_total == first.report.time.steps_total + 1
        process.stdin.write("end\n")
        process.stdin.flush()
        assert process.wait(20) == 0
        feed.snapshot(Request(None, 100))  # notices that the agent is gone, and opens the file
        ended = feed.snapshot(Request(None, 100))
        assert (ended.live, ended.state) == (False, "finished")
