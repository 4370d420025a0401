"""benchmarks/projection: which rows are compared, and the line that a check reads."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from accelprof.benchmarks.projection import table
from accelprof.benchmarks.projection.score import Pair, summary
from accelprof.profiler.advisor.curves import parameters
from accelprof.profiler.advisor.transfer import Modelled, carry

FOLDER = Path(__file__).parents[2] / "benchmarks" / "projection"
HEAD = (
    "workload,task,framework,library_version,accelerator_id,accelerator_count,batch_per_device,"
    "precision,input_shape,value,unit,source,as_of,notes\n"
)
LAST = re.compile(
    r"median error (-|\d+\.\d) %, p90 (-|\d+\.\d) %, bias (-|[+-]\d+\.\d) %, "
    r"pairs \d+, skipped \d+"
)


def line(card: str, value: str = "100", notes: str = "", unit: str = "images/s") -> str:
    fixed = f"resnet50,train,pytorch,2.0,{card},1,32,amp-fp16,224x224"
    return f"{fixed},{value},{unit},a/b:c,2024,{notes}\n"


def read(tmp_path: Path, *lines: str) -> tuple[list[table.Row], int]:
    path = tmp_path / "table.csv"
    path.write_text(HEAD + "".join(lines))
    return table.read(path)


def test_doubtful_and_incomplete_rows_are_left_out(tmp_path: Path) -> None:
    rows, left = read(tmp_path, line("t4"), line("t4", notes="doubtful: x"), line("t4", value=""))
    assert len(rows) == 1
    assert left == 2


@pytest.mark.parametrize(
    ("unit", "value", "seconds"),
    [("images/s", "64", 0.5), ("ms/batch", "20", 0.02), ("mels/s", "5", None)],
)
def test_a_step_in_seconds(tmp_path: Path, unit: str, value: str, seconds: float | None) -> None:
    rows, _ = read(tmp_path, line("t4", value=value, unit=unit))
    assert rows[0].step_s == seconds


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a100-sxm-80", "a100-sxm-80gb"), ("rtx3090", "rtx-3090"), ("a6000", "rtx-a6000"),
        ("gb200-186", "gb200"), ("titan-v", "titan-v"), ("abacus", None),
    ],
)  # fmt: skip
def test_cards_by_the_tables_names(name: str, found: str | None) -> None:
    card = table.accelerator(name)
    assert (card.id if card else None) == found


def test_the_same_device_keeps_its_time() -> None:
    here = Modelled(device_s=0.08, host_s=0.03)
    for measured in (0.02, 0.1, 0.4):
        assert carry(measured, here, here, parameters()["spread"]).mid == pytest.approx(measured)


def test_a_step_far_above_the_device_is_mostly_host() -> None:
    """A tenth of the device time does not make a host-bound step ten times shorter."""
    slow, fast = Modelled(0.02, 0.09), Modelled(0.002, 0.09)
    assert carry(0.1, slow, fast, parameters()["spread"]).mid > 0.07


def test_the_last_line(tmp_path: Path) -> None:
    rows, _ = read(tmp_path, line("t4", "100"), line("a100-sxm-40", "400"))
    pairs = [Pair(rows[0], rows[1], 0.1), Pair(rows[1], rows[0], 0.3)]
    assert LAST.fullmatch(summary(pairs, 7))
    assert LAST.fullmatch(summary([], 7))


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(FOLDER), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)


def test_the_folder_runs_and_counts_what_it_skips(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(HEAD + line("t4").replace("resnet50", "no-such-net") * 3)
    done = run(str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith("pairs 0, skipped 3")
    assert LAST.fullmatch(done.stdout.splitlines()[-1])


def test_a_real_model_is_projected(tmp_path: Path) -> None:
    pytest.importorskip("torchvision")
    path = tmp_path / "table.csv"
    path.write_text(HEAD + line("v100-sxm2-16", "800") + line("a100-sxm-40", "2000"))
    done = run(str(path))
    assert done.returncode == 0, done.stderr
    assert "pairs 2, skipped 0" in done.stdout.splitlines()[-1]


def test_a_file_that_is_none_is_refused_in_one_line(tmp_path: Path) -> None:
    done = run(str(tmp_path / "absent.csv"))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
