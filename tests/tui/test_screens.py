"""The screens with their colours, against pictures (pytest --snapshot-update makes them anew)."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import functools
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "reports"))
import cases
import recording
import textual
from pytest_textual_snapshot import SVGImageExtension
from syrupy.assertion import SnapshotAssertion
from textual.pilot import Pilot

from accelprof.profiler.diagnosis import examine
from accelprof.profiler.diagnosis.model import RunView
from accelprof.profiler.report import Finding, HostJob, Report, Verdict
from accelprof.storage.reader import RunReader, open_run
from accelprof.tui import draw
from accelprof.tui.app import TopApp
from accelprof.tui.feed import RunFeed, failed
from accelprof.tui.model import RunChoice
from accelprof.tui.screens.host import HostScreen
from accelprof.tui.screens.picker import PickerScreen
from accelprof.tui.screens.run import RunScreen
from accelprof.tui.views import VIEWS
from accelprof.tui.views.devices import DeviceCharts
from accelprof.tui.widgets.devices import DevicesPanel
from accelprof.tui.widgets.jobs import JobsPanel
from accelprof.tui.widgets.nav import Nav
from accelprof.tui.widgets.rows import Rows
from accelprof.tui.widgets.timeline import Timeline
from accelprof.tui.widgets.verdict import VerdictPanel

# Textual draws its own parts a little differently from version to version
same_textual = pytest.mark.skipif(
    textual.__version__ != "8.2.8", reason="the pictures were made with textual 8.2.8"
)
Test = Callable[..., Coroutine[Any, Any, None]]


def in_loop(test: Test) -> Callable[..., None]:
    """The test in an event loop of its own."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


HOSTILE = "\x1b[31m[bold]x[/bold] \u202e<b>"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    path = tmp_path_factory.mktemp("runs")
    recording.record(path / "cpu")
    recording.record(path / "gpu", gpu=True)
    recording.record(path / "full", full=True)
    return {name: path / name for name in ("cpu", "gpu", "full")}


JUDGED: dict[Path, tuple[Report, RunView]] = {}


def judged(reader: RunReader, *, now_ns: int | None) -> tuple[Report, RunView]:
    """The words of a fixed report, so that the pictures do not change with the diagnosis."""
    if reader.folder not in JUDGED:
        report, view = examine(reader, now_ns=now_ns)
        fixed = cases.input_bound()
        fixed.run, fixed.ranks, fixed.hotspots = report.run, report.ranks, report.hotspots
        JUDGED[reader.folder] = fixed, view
    report, view = JUDGED[reader.folder]
    return copy.deepcopy(report), view


@pytest.fixture
def app(runs: dict[str, Path]) -> Callable[[str], TopApp]:
    return lambda name: TopApp(
        open_run(runs[name]), feed=lambda reader: RunFeed(reader, judge=judged)
    )


async def shown(pilot: Pilot[None]) -> RunScreen:
    """Waits until the run's first snapshot is on the screen."""
    for _ in range(500):
        await pilot.pause(0.01)
        screen = pilot.app.screen
        if isinstance(screen, RunScreen) and screen.snapshot is not None:
            await pilot.pause()
            return screen
    raise AssertionError("no snapshot came")


async def settled(pilot: Pilot[None]) -> None:
    """Waits until what was asked of the feed is shown."""
    screen = pilot.app.screen
    await pilot.pause()
    if isinstance(screen, RunScreen):
        for _ in range(500):
            seen = screen.snapshot
            if seen is not None and screen.asked == seen.request:
                break
            await pilot.pause(0.01)
        await pilot.pause()
    await still(pilot)


async def still(pilot: Pilot[None]) -> None:
    """Waits until nothing moves: a table widens its columns after its rows are there."""
    before = ""
    for _ in range(50):
        await pilot.pause(0.02)
        now = pilot.app.export_screenshot()
        if now == before:
            return
        before = now


def after(*keys: str) -> Callable[[Pilot[None]], Awaitable[None]]:
    """Presses keys once the run is shown, each when the one before has had its effect."""

    async def press(pilot: Pilot[None]) -> None:
        await shown(pilot)
        for key in keys:
            await pilot.press(key)
            await settled(pilot)

    return press


@same_textual
@pytest.mark.parametrize(
    ("name", "size", "keys"),
    [
        ("cpu", (80, 24), ()),
        ("gpu", (200, 60), ("home", "right", "right")),
        ("gpu", (120, 40), ("t",)),
        ("cpu", (80, 24), ("question_mark",)),
        ("cpu", (80, 24), ("3", "o", "down")),
    ],
    ids=["small", "large", "light", "help", "newest-steps"],
)
def test_picture(
    snap_compare: Callable[..., bool], app: Callable[[str], TopApp], name: str,
    size: tuple[int, int], keys: Sequence[str],
) -> None:  # fmt: skip
    assert snap_compare(app(name), terminal_size=size, run_before=after(*keys))


SIZES = {"small": (80, 24), "middle": (120, 40), "large": (250, 70)}


@same_textual
@pytest.mark.parametrize("size", SIZES)
@in_loop
async def test_views(app: Callable[[str], TopApp], snapshot: SnapshotAssertion, size: str) -> None:
    """One app for all views of a size: to start one costs more than to draw one."""
    pictures = snapshot.use_extension(SVGImageExtension)
    top = app("full")
    different = []
    async with top.run_test(size=SIZES[size]) as pilot:
        await shown(pilot)
        for at, view in enumerate(VIEWS, 1):
            await pilot.press(str(at))
            await settled(pilot)
            if pictures(name=f"{view.NAME}-{size}") != top.export_screenshot():
                different.append(view.NAME)
    assert not different, "differ from their pictures (pytest --snapshot-update, and look at them)"


@in_loop
async def test_lines_that_change_are_drawn_anew(app: Callable[[str], TopApp]) -> None:
    """Only they are: the picture is the same as when all of it is drawn."""
    top = app("full")
    async with top.run_test(size=(120, 40)) as pilot:
        screen = await shown(pilot)
        for key, state, word in (("1", "Z", "zombie"), ("7", "T", "stopped")):
            await pilot.press(key)
            await settled(pilot)
            seen, before = screen.snapshot, top.export_screenshot()
            assert seen is not None
            first, *others = seen.processes
            busy = dataclasses.replace(first, cpu_cores=0.07, state=state)
            machine = dataclasses.replace(seen.machine, cpu=0.99)
            screen.show(dataclasses.replace(seen, processes=(busy, *others), machine=machine))
            await still(pilot)
            after_change = top.export_screenshot()
            for widget in screen.query("*"):
                widget.refresh()
            await still(pilot)
            assert before != after_change == top.export_screenshot()
            assert word in after_change


@in_loop
async def test_why_and_copy(app: Callable[[str], TopApp]) -> None:
    top = app("full")
    async with top.run_test(size=(100, 30)) as pilot:
        screen = await shown(pilot)
        await pilot.press("8", "c")
        assert top.clipboard.startswith("**too-few-workers** (critical, up to 3.4x): One loader")
        assert "1. `DataLoader(num_workers=4)` at `train.py:31`: four workers" in top.clipboard
        await pilot.press("enter")
        assert screen.shown.NAME == "input"
        await pilot.press("tab")
        assert screen.shown.NAME == "roofline"


@in_loop
async def test_the_mouse(app: Callable[[str], TopApp]) -> None:
    top = app("full")
    async with top.run_test(size=(120, 40)) as pilot:
        screen = await shown(pilot)
        await pilot.click(Timeline, offset=(60, 3))
        await settled(pilot)
        assert screen.snapshot is not None
        assert 35 < screen.snapshot.elapsed_s < 60
        await pilot.click(Nav, offset=(16, 0))
        assert screen.shown.NAME == "devices"
        await settled(pilot)
        await pilot.click("#device-rows", offset=(5, 4))
        assert screen.query_one("#device-rows", Rows).chosen == 2
        assert screen.query_one(DeviceCharts).border_title == "gpu 2 over time"


@in_loop
async def test_a_picture_of_the_screen(
    app: Callable[[str], TopApp], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    top = app("cpu")
    async with top.run_test(size=(80, 24)) as pilot:
        await shown(pilot)
        await pilot.press("S")
        await pilot.pause()
    (picture,) = tmp_path.glob("accelprof-overview-*.svg")
    text = picture.read_text()
    assert "INPUT-BOUND" in text
    assert "url(" not in text.replace("url(#", "")


@in_loop
async def test_the_palette_goes_to_a_view(app: Callable[[str], TopApp]) -> None:
    top = app("cpu")
    async with top.run_test(size=(80, 24)) as pilot:
        screen = await shown(pilot)
        await pilot.press("ctrl+p", *"view: host")
        await pilot.pause(0.3)
        await pilot.press("enter")
        await pilot.pause()
        if top.screen is not screen:
            await pilot.press("enter")
            await pilot.pause()
        assert screen.shown.NAME == "host"


@in_loop
async def test_text_of_the_job_is_only_text(app: Callable[[str], TopApp]) -> None:
    top = app("cpu")
    async with top.run_test(size=(100, 50)) as pilot:
        screen = await shown(pilot)
        assert screen.snapshot is not None
        report = screen.snapshot.report
        report.verdict = Verdict("input-bound", "low", HOSTILE, HOSTILE, [], None, [HOSTILE])
        report.findings = [Finding("x", "warning", HOSTILE, [], [HOSTILE])]
        screen.show(failed(screen.snapshot, HOSTILE))
        await pilot.pause()
        picture = top.export_screenshot()
    assert "\x1b" not in picture
    assert "[bold]x[/bold]" in picture.replace("&#160;", " ")


@in_loop
async def test_a_run_that_cannot_be_read_any_more(app: Callable[[str], TopApp]) -> None:
    top = app("cpu")
    async with top.run_test(size=(100, 30)) as pilot:
        screen = await shown(pilot)
        screen.post_message(RunScreen.Failed("the agent is gone"))
        await pilot.pause()
        assert screen.snapshot is not None
        assert screen.snapshot.problem == "the agent is gone"
        assert "the&#160;agent&#160;is&#160;gone" in top.export_screenshot()


@in_loop
async def test_the_picker_opens_the_chosen_run(runs: dict[str, Path]) -> None:
    choices = [RunChoice(str(path), name, name, "python x.py", 0) for name, path in runs.items()]
    top = TopApp(None, choices)
    async with top.run_test(size=(80, 24)) as pilot:
        assert isinstance(top.screen, PickerScreen)
        await pilot.press("down", "enter")
        screen = await shown(pilot)
        assert screen.snapshot is not None
        assert screen.snapshot.machine.accelerators
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(top.screen, PickerScreen)
        await pilot.click(Rows, offset=(4, 2))
        assert (await shown(pilot)).snapshot is not None, "a click opens a run"


@in_loop
async def test_recorded_runs_are_a_key_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setenv("ACCELPROF_HOME", str(tmp_path))
    recording.record(tmp_path / "runs" / recording.RUN_ID)
    top = TopApp()
    async with top.run_test(size=(120, 24)) as pilot:
        await pilot.press("r")
        for _ in range(2000):
            if isinstance(top.screen, PickerScreen):
                break
            await pilot.pause(0.02)
        await pilot.pause()
        picture = top.export_screenshot().replace("&#160;", " ")
        assert "1 recorded runs, the newest first" in picture and recording.RUN_ID in picture
        assert "finished" in picture
        await pilot.press("enter")
        screen = await shown(pilot)
        assert screen.snapshot is not None


@in_loop
async def test_a_choice_that_is_gone_is_told(tmp_path: Path) -> None:
    choices = [RunChoice(str(tmp_path / name), name, name, "x", 0) for name in ("a", "b")]
    top = TopApp(None, choices)
    async with top.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(top.screen, PickerScreen)


@in_loop
async def test_the_host(tmp_path: Path) -> None:
    top = TopApp()
    async with top.run_test(size=(80, 24)) as pilot:
        assert isinstance(top.screen, HostScreen)
        for _ in range(500):
            await pilot.pause(0.01)
            if top.screen.snapshot is not None:
                break
        assert top.screen.snapshot is not None
        assert top.screen.snapshot.processes


@pytest.mark.parametrize("width", [0, 1, 7, 80])
def test_drawing_at_any_size(width: int) -> None:
    shares: dict[str, Any] = {"input": 0.7, "compute": 0.3}
    assert draw.share_bar(shares, width).cell_len == width
    assert draw.share_bar({}, width).cell_len == width
    assert draw.legend([shares], width).cell_len <= max(width, 0)
    assert draw.meter(0.33, width).cell_len == width
    assert draw.meter(None, width).cell_len == width
    assert draw.axis(width, "0:00", "1:35", 0.5).cell_len == width
    draw.core_strip([0.1, None, 1.0], width)


def test_a_full_and_an_empty_meter() -> None:
    assert draw.meter(1.0, 4).plain == "████"
    assert draw.meter(0.0, 4).plain == "····"
    assert draw.meter(7.5, 4).plain == "████"


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
@in_loop
async def test_the_recording_of_a_host_shows_its_jobs(
    runs: dict[str, Path], size: tuple[int, int]
) -> None:
    began = "2026-11-30T10:05:00+00:00"
    jobs = [
        HostJob(HOSTILE, "eve", "python x.py", began, None, None, 9, 3.25, 3 << 30),
        HostJob("old", "bob", "python y.py", began, began, 60.0, 1, None, None),
    ]

    def of_host(reader: RunReader, *, now_ns: int | None) -> tuple[Report, RunView]:
        report, view = judged(reader, now_ns=now_ns)
        report.run.id, report.jobs = "daemon", jobs
        return report, view

    feed = functools.partial(RunFeed, judge=of_host)
    async with TopApp(open_run(runs["gpu"]), feed=feed).run_test(size=size) as pilot:
        screen = await shown(pilot)
        await settled(pilot)
        panel = screen.query_one(JobsPanel)
        assert panel.display and not screen.query_one(VerdictPanel).display
        assert str(panel.border_title) == "jobs (2, 1 running)"
        lines = [panel.render_line(y).text for y in range(3)]
        assert "\x1b" not in lines[1] and "running" in lines[1] and "3 GiB" in lines[1]
        assert lines[2].split()[:6] == ["old", "bob", "11-30", "10:05", "1", "min"]
        assert screen.query_one(DevicesPanel).display
