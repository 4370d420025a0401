"""`accelprof.profile()` and the cell magic: real programs and a real Jupyter kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from accelprof.storage.library import list_runs
from accelprof.storage.reader import open_run

JOB = """
import sys, torch
from torch.utils.data import DataLoader, Dataset
import accelprof

class Slow(Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, at):
        torch.randn(120, 120) @ torch.randn(120, 120)
        return torch.zeros(8)

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)

def train():
    for batch in DataLoader(Slow(), batch_size=1):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
PROGRAM = (
    JOB
    + """
train()
before = list(sys.meta_path), dict(__import__("os").environ)
for name in ("one", "two"):
    with accelprof.profile(name, quiet=name == "two") as part:
        with accelprof.profile("inner"):
            train()
    print(part.path)
assert dict(__import__("os").environ) == before[1]
train()
try:
    with accelprof.profile("wrong", quiet=True):
        raise KeyError("mine")
except KeyError:
    print("raised")
"""
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all: the machine's ceilings are measured once a home."""
    return tmp_path_factory.mktemp("home")


def runs(home: Path, name: str) -> list[Path]:
    return [run for run in list_runs(home / "runs") if run.name.split("-")[2] == name]


def environment(home: Path) -> dict[str, str]:
    return os.environ | {"ACCELPROF_HOME": str(home), "IPYTHONDIR": str(home / "ipython")}


def ran(program: str, home: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(program)
    return subprocess.run(
        [sys.executable, "program.py"], cwd=folder, capture_output=True, text=True,
        check=False, env=environment(home), timeout=200,
    )  # fmt: skip


CUT = (
    JOB
    + """
with accelprof.profile("cut", quiet=True):
    train()
    sys.modules["_accelprof_hooks.capture"]._state.start(1000)
    train()
    assert torch._C._autograd._profiler_enabled()
assert not torch._C._autograd._profiler_enabled()
train()
assert not torch._C._autograd._profiler_enabled()
"""
)


def test_a_capture_ends_with_its_recording(home: Path, tmp_path: Path) -> None:
    """Left running it crashed torch at the program's end."""
    done = ran(CUT, home, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_parts_of_a_program_are_runs(home: Path, tmp_path: Path) -> None:
    done = ran(PROGRAM, home, tmp_path)
    assert done.returncode == 0, done.stderr
    one, two, raised = done.stdout.splitlines()
    assert raised == "raised"
    assert done.stderr.count("accelprof: one ─") == 1 and "two ─" not in done.stderr
    for path, name in ((one, "one"), (two, "two")):
        with open_run(Path(path)) as reader:
            assert reader.rows("SELECT name, state, command[1] FROM run") == [
                (name, "finished", "program.py")
            ]
            # The optimizer was there before the hooks, and its facts are in both.
            steps = reader.rows("SELECT count(*), count(forward_ns), count(optimizer_ns) FROM step")
            assert steps == [(40, 40, 40)]
            facts = json.dumps(reader.rows("SELECT facts::VARCHAR FROM process"))
            assert "SGD" in facts and "inner" in facts
        assert not (Path(path) / "spool").exists()
    with open_run(runs(home, "wrong")[0]) as reader:
        assert reader.rows("SELECT name, state FROM run") == [("wrong", "failed")]


def test_within_a_run_it_names_a_part(tmp_path: Path) -> None:
    code = "import accelprof\nwith accelprof.profile('part') as p: accelprof.step()\nprint(p.path)"
    done = subprocess.run(
        [sys.executable, "-m", "accelprof", "run", "--quiet", sys.executable, "-c", code],
        capture_output=True, text=True, check=False, env=environment(tmp_path), timeout=100,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "None\n"), done.stderr
    assert len(list_runs(tmp_path / "runs")) == 1
    with open_run(list_runs(tmp_path / "runs")[0]) as reader:
        assert "part" in json.dumps(reader.rows("SELECT facts::VARCHAR FROM process"))


def test_nothing_can_be_written(tmp_path: Path) -> None:
    """The program goes on, with a line on stderr."""
    code = "import accelprof\nwith accelprof.profile() as p: print('done')\nprint(p.path)"
    blocked = tmp_path / "file"
    blocked.touch()
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=100,
        env=environment(tmp_path) | {"ACCELPROF_HOME": str(blocked), "TMPDIR": str(blocked)},
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.startswith("done\n"), done.stderr
    assert done.stderr.startswith("accelprof: cannot record in ")


def test_a_cell_of_a_notebook(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="needs the extra")
    nbclient = pytest.importorskip("nbclient", reason="needs the extra")
    pytest.importorskip("ipykernel", reason="needs the extra")
    for name, value in environment(home).items():
        monkeypatch.setenv(name, value)
    cells = ["%load_ext accelprof", JOB, "%%accelprof epoch\ntrain()\nmine = 7\nprint('trained')",
             "mine", "%%accelprof\n1 / 0"]  # fmt: skip
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    nbclient.NotebookClient(book, timeout=200, kernel_name="python3", allow_errors=True).execute()
    recorded, after, wrong = book.cells[2:]
    shown = [out for out in recorded.outputs if out.output_type == "display_data"]
    assert [out.text for out in recorded.outputs if out.get("name") == "stdout"] == ["trained\n"]
    assert len(shown) == 1, recorded.outputs
    assert shown[0].data["text/html"].startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')
    assert "train" in shown[0].data["text/markdown"] and "epoch" in shown[0].data["text/plain"]
    assert after.outputs[0].data["text/plain"] == "7"
    assert any(out.get("ename") == "ZeroDivisionError" for out in wrong.outputs)
    assert len(runs(home, "cell")) == len(runs(home, "epoch")) == 1
    with open_run(runs(home, "epoch")[0]) as run:
        assert run.rows("SELECT count(*), count(optimizer_ns) FROM step") == [(40, 40)]
