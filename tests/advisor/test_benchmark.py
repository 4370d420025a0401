"""benchmarks/projection: which rows are compared, and the line that a check reads."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from accelprof.benchmarks.projection import software, table  # noqa: E402
from accelprof.benchmarks.projection.columns import Built, Columns  # noqa: E402
from accelprof.benchmarks.projection.score import Pair, Table, summary  # noqa: E402
from accelprof.benchmarks.projection.sweep import Series, Times, project  # noqa: E402
from accelprof.profiler.advisor import curves  # noqa: E402
from accelprof.profiler.advisor.operators import Operator  # noqa: E402

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


@pytest.mark.parametrize("value", ["nan", "inf", "-3", "0", "1e400", "many", ""])
def test_figures_that_are_none_are_left_out(tmp_path: Path, value: str) -> None:
    rows, left = read(tmp_path, line("t4", value=value), "resnet50,train\n", "x" * 20 + "\n")
    assert (rows, left) == ([], 3)


def test_columns_that_say_little_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "short.csv"
    path.write_text(
        "\ufeffworkload,task,accelerator_id,batch_per_device,precision,value,unit\n"
        "resnet50,Train,t4,32,FP16,100,images/s\n"
    )
    ((row,), left) = table.read(path)
    assert (row.task, row.precision, row.count, left) == ("train", "fp16", 1, 0)
    path.write_text("workload,value\nresnet50,3\n")
    with pytest.raises(ValueError, match="it has no column task, accelerator_id"):
        table.read(path)


@pytest.mark.parametrize(
    ("unit", "value", "seconds"),
    [
        ("images/s", "64", 0.5),
        ("ms/batch", "20", 0.02),
        ("mels/s", "64", 32.0),
        ("iterations/s", "8", 0.125),
        ("TFLOP/s", "5", None),
    ],
)
def test_a_step_in_seconds(tmp_path: Path, unit: str, value: str, seconds: float | None) -> None:
    rows, _ = read(tmp_path, line("t4", value=value, unit=unit))
    assert rows[0].step_s == seconds


@pytest.mark.parametrize(
    ("framework", "shape", "seconds"),
    [
        ("x", "seq128", 32 * 128 / 50), ("x", "tgt192-mem192", 32 * 192 / 50),
        ("x", "maxlen128-beamwidth4", 32 / 50), ("x", "sampling0.5", 32 / 50),
        ("llama.cpp", "pp512", 32 * 512 / 50), ("x", "in128-out128", None),
    ],
)  # fmt: skip
def test_a_step_of_tokens(
    tmp_path: Path, framework: str, shape: str, seconds: float | None
) -> None:
    row = line("t4", "50", unit="tokens/s").replace("224x224", shape)
    rows, _ = read(tmp_path, row.replace("pytorch", framework))
    assert rows[0].step_s == (None if seconds is None else pytest.approx(seconds))


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


def times(device_s: list[float], host_s: list[float]) -> Times:
    columns = [torch.tensor(x).double().log() for x in (device_s, host_s, [1e-12] * len(host_s))]
    return Times(*columns)


def carried(rows: list[table.Row], modelled: Times, source: int, target: int) -> float:
    measured = torch.tensor([row.step_s for row in rows]).double().log()
    pair = (torch.tensor([source]), torch.tensor([target]))
    found = project(measured, modelled, Series(rows), pair, software.parameters())
    return float(found.exp())


def test_the_same_device_keeps_its_time(tmp_path: Path) -> None:
    for value in ("640", "320", "160"):  # 0.05 to 0.2 s
        rows, _ = read(tmp_path, line("t4", value), line("t4", "1", notes="another day"))
        found = carried(rows, times([0.08, 0.08], [0.03, 0.03]), 0, 0)
        assert found == pytest.approx(32 / float(value), rel=0.05)


def test_a_step_far_above_the_device_is_mostly_host(tmp_path: Path) -> None:
    """A tenth of the device time does not make a host-bound step ten times shorter."""
    rows, _ = read(tmp_path, line("t4", "320"), line("a100-sxm-40", "320"))
    assert carried(rows, times([0.02, 0.002], [0.09, 0.09]), 0, 1) > 0.07


def test_other_batch_sizes_tell_the_host_from_the_device(tmp_path: Path) -> None:
    """A step as long at half the batch is the host's, whatever the model thought."""
    half = line("t4", "160").replace(",32,", ",16,")  # 0.1 s, as the whole batch takes
    rows, _ = read(tmp_path, line("t4", "320"), line("a100-sxm-40", "640"), half)
    modelled = times([0.08, 0.008, 0.04], [0.08, 0.08, 0.08])
    alone = carried(rows[:2], times([0.08, 0.008], [0.08, 0.08]), 0, 1)
    assert carried(rows, modelled, 0, 1) > 1.02 * alone


def test_columns_say_what_single_operators_say(tmp_path: Path) -> None:
    rows, _ = read(tmp_path, line("v100-sxm2-16"), line("a100-sxm-40"))
    rows = [row for row in rows if row.task == "train"]
    ops = [
        Operator.of("mm", "[[512, 256], [256, 512]]", "c10::Half", calls=3, flops=4e8, bytes=3e6),
        Operator.of(
            "native_layer_norm", "[[512, 256]]", "c10::Half", calls=2, flops=1e6, bytes=1e6
        ),
    ]
    model = software.parameters()
    columns = Columns(rows, [Built(ops, 0, 0)] * 2).device_s(model)
    for row, found in zip(rows, columns.tolist(), strict=True):
        card = table.accelerator(row.accelerator)
        assert card is not None
        at = curves.target(card, "fp16")
        assert at is not None
        rate = curves.sustained(at, model)
        alone = sum(curves.seconds(op, at, rate, model) for op in ops)
        assert found == pytest.approx(alone)


def test_a_faster_card_is_projected_faster_and_backwards(tmp_path: Path) -> None:
    rows, _ = read(tmp_path, line("v100-sxm2-16", "800"), line("a100-sxm-40", "2000"))
    big = Operator.of(
        "mm", "[[8192, 8192], [8192, 8192]]", "c10::Half", calls=40, flops=4.4e13, bytes=1.6e10
    )
    pairs = Table([(rows, Built([big], 0, 0))]).pairs(software.parameters())
    up, down = sorted(pairs, key=lambda pair: pair.projected_s)
    assert up.target.accelerator == "a100-sxm-40"
    assert up.projected_s < 0.7 * (up.source.step_s or 0.0)
    assert down.projected_s > 1.4 * (down.source.step_s or 0.0)


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
