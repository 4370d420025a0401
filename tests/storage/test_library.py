"""Run ids, the home folder, and what a user may write for a run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelprof.storage import library
from accelprof.storage.library import RunNotFound, resolve


@given(st.text(max_size=200))
def test_every_name_gives_an_id_that_is_one_safe_word(name: str) -> None:
    run_id = library.new_run_id(name, now_s=1_700_000_000.5)
    assert re.fullmatch(r"20231114-221320-[A-Za-z0-9._+-]+-[0-9a-z]{4}", run_id)
    assert Path(run_id).name == run_id and len(run_id) < 80
    assert library.name_of(run_id) == library.clean_name(name)
    assert library.clean_name(library.clean_name(name)) == library.clean_name(name)


@given(st.floats(0, 4e9), st.floats(0, 4e9))
def test_ids_sort_by_time(one: float, other: float) -> None:
    first, second = sorted((one, other))
    if int(first) != int(second):
        assert library.new_run_id("z", now_s=first) < library.new_run_id("a", now_s=second)


def test_the_newest_of_one_second_is_the_last(tmp_path: Path) -> None:
    for name, part in (("zebra", 0.1), ("ant", 0.6), ("moth", 0.3)):
        (tmp_path / library.new_run_id(name, now_s=1_700_000_000 + part)).mkdir()
    names = [library.name_of(run.name) for run in library.list_runs(tmp_path)]
    assert names == ["ant", "moth", "zebra"]
    assert library.name_of(resolve("last", root=tmp_path).name) == "ant"


def test_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert library.home({"ACCELPROF_HOME": "/x/y"}) == Path("/x/y")
    assert library.home({"ACCELPROF_HOME": "~/y"}) == tmp_path / "y"
    assert library.home({"XDG_DATA_HOME": "/data"}) == Path("/data/accelprof")
    assert library.home({"XDG_DATA_HOME": "relative"}) == tmp_path / ".local/share/accelprof"
    assert library.home({}) == tmp_path / ".local/share/accelprof"


IDS = [
    "20260101-000000-train-aaaa", "20260102-000000-train-bbbb",
    "20260103-000000-eval-cccc", "20260103-000000-a-b-cbbb",
]  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for run_id in IDS:
        (tmp_path / "runs" / run_id).mkdir(parents=True)
    (tmp_path / "runs" / "something else").mkdir()
    (tmp_path / "runs" / "20260104-000000-file-eeee").touch()
    return tmp_path / "runs"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("last", IDS[2]), ("train", IDS[1]), ("eval", IDS[2]), ("a b", IDS[3]), ("a-b", IDS[3]),
        (IDS[0], IDS[0]), ("20260101", IDS[0]), ("20260103-000000-e", IDS[2]),
    ],
)  # fmt: skip
def test_resolve(root: Path, text: str, found: str) -> None:
    assert resolve(text, root=root) == root / found


def test_resolve_paths(root: Path, tmp_path: Path) -> None:
    folder = root / IDS[0]
    (folder / library.RUN_FILE).touch()
    assert resolve(str(folder), root=root) == folder
    assert resolve(str(folder / library.RUN_FILE), root=tmp_path) == folder / library.RUN_FILE
    assert resolve(str(root), root=tmp_path / "none") == root / IDS[2]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("trian", f"the nearest is {IDS[1]}"), ("20260102-000000-train-bbbx", IDS[1]),
        ("20260103", "begins 2 runs"), ("", "accelprof runs"), ("x" * 5000, "accelprof runs"),
        ("\0", "accelprof runs"), ("/nosuch/path", "accelprof runs"),
    ],
)  # fmt: skip
def test_not_found_names_the_nearest(root: Path, text: str, part: str) -> None:
    with pytest.raises(RunNotFound) as caught:
        resolve(text, root=root)
    assert part in str(caught.value)


def test_no_runs_at_all(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound, match="holds no runs yet"):
        resolve("last", root=tmp_path)
