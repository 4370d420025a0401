"""The hooks in older torch: one job in an environment for each, the same with and without them.

`sh tests/e2e/torch_versions.sh` makes the environments; those that are there are tried, and the
torch of this one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .conftest import ROOT, User

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
JOB = Path(__file__).parent / "jobs" / "any_torch.py"
PYTHONS = [Path(sys.executable), *sorted(ROOT.glob("build/torch-*/bin/python"))]


@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: path.parent.parent.name)
def test_a_job_is_seen_whole_and_undisturbed(python: Path, user: User) -> None:
    plain = user.types(python, JOB)
    assert plain.returncode == 0, plain.stderr
    name = python.parent.parent.name.strip(".")
    ran = user.runs(name, "--capture", "60", "--quiet", python, JOB)
    assert (ran.status, ran.stdout, ran.stderr) == (0, plain.stdout, plain.stderr)
    time = ran.report["time"]
    assert time["steps_total"] == 100 and time["samples_per_s"], ran
    needed = {"data_wait", "forward", "backward", "optimizer", "evaluation", "checkpoint"}
    assert not needed & set(time["not_observed"]), ran
    quality = ran.report["quality"]
    assert quality["hooks"] == "full" and quality["events_lost"] == 0
    assert not [gap for gap in quality["gaps"] if gap["metric"].startswith("hook")], quality
    assert ran.report["hotspots"]["ops"], ran
