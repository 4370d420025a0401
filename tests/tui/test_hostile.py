"""Names that a job chooses: nothing in them may act on the terminal, or push the screen apart."""

from __future__ import annotations

import asyncio
import html
import json
import re
from pathlib import Path

import duckdb
import pytest
import recording

from accelprof.storage.reader import open_run
from accelprof.tui.app import TopApp
from accelprof.tui.details import DETAILS
from accelprof.tui.screens.run import RunScreen
from accelprof.tui.views import VIEWS

ACTING = (
    "\x1b[2J\r\x08[red]x[/]", "[@click=app.quit]y[/] [/nothing] {z} <b>&amp;",
    "\x1b]0;o\x07\x9b31m",
    "\u202egnp.\u2066 \u200f\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "👩\u200d👩\u200d👧 训练 e\u0301\u0301",
)  # fmt: skip
NAMES = {"acting": " ".join(ACTING), "long": "/very" * 2000}
RENAMED = """
    UPDATE run SET name = $1, command = [$1, $1], "user" = $1, host = $1, cwd = $1;
    UPDATE process SET command = $1;
    UPDATE process SET facts = replace(facts::VARCHAR, '"train.py:31"', $2) WHERE facts IS NOT NULL;
    UPDATE device SET name = $1;
    UPDATE op SET name = $1, phase = $1, dtype = $1;
    UPDATE stack SET frames = replace(frames, 'data.py', $1);
    UPDATE event SET kind = $1, data = $2;
    UPDATE gap SET source = $1, metric = $1, reason = $1;
"""
CELL = 12.2  # of a picture
TEXT = re.compile(
    r'<text class="[^"]*-r\d+" x="([\d.]+)"[^>]* textLength="([\d.]+)"[^>]*>([^<]*)</text>'
)


def renamed(folder: Path, name: str) -> Path:
    recording.record(folder, full=True)
    with duckdb.connect(str(folder / "run.duckdb")) as run:
        for statement in filter(str.strip, RENAMED.split(";")):
            values = {"1": name, "2": json.dumps(name)}
            run.execute(statement, {k: v for k, v in values.items() if f"${k}" in statement})
    (folder / "log.txt").write_text(f"2026-01-12T10:17:00Z {name}\n{name}\n")
    head = {"version": 2, "width": 80, "height": 24, "timestamp": recording.START_NS // 10**9}
    piece = json.dumps([1.0, "o", f"{name}\r\n"])
    (folder / "output.cast").write_text(f"{json.dumps(head)}\n{piece}\nno json\n[1]\n")
    return folder


@pytest.mark.parametrize("kind", NAMES)
def test_hostile_names(tmp_path: Path, kind: str) -> None:
    folder = renamed(tmp_path / "run", NAMES[kind])

    async def look() -> dict[str, str]:
        top, found = TopApp(open_run(folder)), {}
        async with top.run_test(size=(80, 24)) as pilot:
            for at, view in enumerate(VIEWS, 1):
                await pilot.press(str(at))
                screen = top.screen
                assert isinstance(screen, RunScreen)
                for _ in range(4000):
                    seen = screen.snapshot
                    if seen is not None and (view.NAME not in DETAILS or view.NAME in seen.details):
                        break
                    await pilot.pause(0.01)
                await pilot.pause()
                found[view.NAME] = top.export_screenshot()
            assert top.is_running
        return found

    pictures = asyncio.run(look())
    for view, picture in pictures.items():
        parts = [part for part in TEXT.findall(picture) if part[2] != "\n"]
        assert parts, view
        for x, length, text in parts:
            assert float(x) + float(length) <= 81 * CELL, (view, text)
            shown = html.unescape(text)
            assert not set(shown) & set("\x1b\x07\x08\r\x9b\u202e\u2066\u200f\u200d"), (view, shown)
    plain = {view: "".join(html.unescape(t[2]) for t in TEXT.findall(p))
             for view, p in pictures.items()}  # fmt: skip
    wanted = ["\\x1b[2J", "[red]x[/]"] if kind == "acting" else ["/very/very"]
    for name in wanted:
        assert name in plain["log"]
    assert wanted[0] in plain["host"]
