"""The line to change, in sources as people write them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from accelprof.profiler.tuning.change import change

CASES = {
    "no arguments yet": ("loader = DataLoader(data)", "loader = DataLoader(data, num_workers=4)"),
    "a number there": (
        "loader = DataLoader(data, 8, num_workers=0, shuffle=True)",
        "loader = DataLoader(data, 8, num_workers=4, shuffle=True)",
    ),
    "several lines": (
        "loader = DataLoader(\n    data,\n    batch_size=8,\n)",
        "loader = DataLoader(\n    data,\n    batch_size=8, num_workers=4,\n)",
    ),
    "in a loop": (
        "for x in torch.utils.data.DataLoader(data): pass",
        "for x in torch.utils.data.DataLoader(data, num_workers=4): pass",
    ),
    "not ascii": (
        'lädt = DataLoader(täglich, batch_size=größe("ä"))',
        'lädt = DataLoader(täglich, batch_size=größe("ä"), num_workers=4)',
    ),
    "a subclass": (
        "super().__init__(data, batch_size=8)",
        "super().__init__(data, batch_size=8, num_workers=4)",
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_the_call_gets_the_argument(tmp_path: Path, before: str, after: str) -> None:
    file = tmp_path / "train.py"
    file.write_text(f"import torch\n\n{before}\nprint('end')\n")
    found = change(f"{file}:3", {"num_workers": 4})
    assert found is not None
    assert (found.line, found.before, found.after) == (3, before, after)
    ast.parse(after)


def test_several_arguments_at_once(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("loader = DataLoader(data, num_workers=args.workers)\n")
    found = change(f"{file}:1", {"num_workers": 8, "prefetch_factor": 4})
    assert found is not None
    assert found.after == "loader = DataLoader(data, num_workers=8, prefetch_factor=4)"
    assert "args.workers" in (found.note or "")


@pytest.mark.parametrize(
    "line",
    ["trainer.train()", "loader = DataLoader(data, **options)", "def broken(:"],
    ids=["library", "dictionary", "syntax"],
)
def test_what_cannot_be_edited_is_said_in_words(tmp_path: Path, line: str) -> None:
    file = tmp_path / "train.py"
    file.write_text(line + "\n")
    found = change(f"{file}:1", {"num_workers": 4})
    assert found is not None
    assert found.after is None
    assert found.before == line
    assert "num_workers=4" in (found.note or "")


@pytest.mark.parametrize("where", [None, "", "gone.py:3", "train.py", "train.py:x"])
def test_a_place_that_is_not_known(where: str | None) -> None:
    found = change(where, {"num_workers": 4})
    assert found is None or (found.before is None and found.after is None)
