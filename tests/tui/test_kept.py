"""The job's output beside its run: whole lines with their times, bounded, and never in the way."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

from accelprof.tui.pty import kept

S = 10**9


def test_lines_have_the_time_of_their_end(tmp_path: Path) -> None:
    clock = itertools.count(1000.0)
    keeper = kept.Keeper(tmp_path, 80, 24, now=lambda: next(clock))
    for piece in (
        b"one\r\n\x1b[32mt",
        b"w\xc3",
        b"\xa9\x1b[0m\r\n\r\n",
        b"\rbar 1\rbar 2",
        b"\r\n$ ",
    ):
        keeper.put(piece)
    keeper.close()
    began = json.loads((tmp_path / kept.NAME).read_text().splitlines()[0])["timestamp"]
    assert (began, (tmp_path / kept.NAME).stat().st_mode & 0o777) == (1000, 0o600)
    found = kept.lines(tmp_path, 2000 * S)
    assert found == [(1001 * S, "one"), (1003 * S, "twé"), (1005 * S, "bar 2"), (1005 * S, "$ ")]
    assert kept.lines(tmp_path, 1002 * S) == [(1001 * S, "one"), (1002 * S, "tw")]


def test_what_is_kept_is_bounded(tmp_path: Path) -> None:
    keeper = kept.Keeper(tmp_path, 80, 24)
    for at in range(2200):
        keeper.put(b"%06d %s\r\n" % (at, b"x" * 4000))
    keeper.close()
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == {kept.NAME, kept.OLDER}
    assert all(size <= kept.HALF_BYTES + 5000 for size in sizes.values())
    found = kept.lines(tmp_path, 10**19)
    assert found and found[-1][1].startswith("002199 xxx")
    assert sum(len(text) for _, text in found) <= 2 * kept.READ_BYTES


def test_a_folder_that_is_gone_costs_only_the_keeping(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    keeper = kept.Keeper(folder, 80, 24)
    shutil.rmtree(folder)
    for _ in range(600):
        keeper.put(b"y" * 8000)
    kept.Keeper(folder, 80, 24).put(b"z")
    kept.Keeper(None, 80, 24).put(b"z")
    assert kept.lines(folder, 10**19) is None


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / kept.NAME).write_bytes(b"\xff\xfe\n[1]\n")
    assert kept.lines(tmp_path, 10**19) == []
    (tmp_path / kept.NAME).write_text(
        '{"timestamp": 1}\n[]\n7\n["a", "o", "x"]\n[1.0, "o", "good"]\n'
    )
    assert kept.lines(tmp_path, 10**19) == [(2 * S, "good")]
