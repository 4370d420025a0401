"""What the documentation promises, typed as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import ROOT, User

# About 20 ms a step, half of it waiting for a generator: quick to record, easy to judge.
LOOP = """
import os, sys, time, torch
from torch import nn
model = nn.Linear(64, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(4096, 64))
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 4 * int(os.environ.get("STEPS", 60))
    def __getitem__(self, i):
        time.sleep(0.005)
        return torch.randn(64)
def main(**options):
    for batch in torch.utils.data.DataLoader(Slow(), batch_size=4, **options):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
"""
# For what is not about operators: without a capture no ceilings are needed, which take 10 s.
UNCAPTURED = ("--capture", "off")
Write = Callable[..., Path]


def wait_for(what: Callable[[], Any], limit_s: float = 60.0) -> Any:
    """Polls for something that another process does."""
    deadline = time.monotonic() + limit_s
    while not (found := what()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)
    return found


def test_a_first_session(user: User, job: Write, tmp_path: Path) -> None:
    """Run, card, report in three formats, list, SQL."""
    script = job(LOOP + "main()\nprint('trained')\n")
    done = user.types("accelprof", "run", "--name", "first", "--tag", "lr=3", "python", script)
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert "INPUT-BOUND" in done.stderr and "accelprof report" in done.stderr
    card = done.stderr[done.stderr.index("accelprof: first") :]
    assert max(map(len, card.splitlines())) <= 80
    assert "\x1b" not in done.stderr

    report = user.reads("first")
    assert report["verdict"]["bottleneck"] == "input-bound"
    assert report["run"]["tags"] == {"lr": "3"}
    assert report["quality"]["hooks"] == "full"
    for suffix, sign in (("md", "# "), ("json", '"accelprof.report/1"'), ("txt", "Run ")):
        file = tmp_path / f"report.{suffix}"
        assert user.types("accelprof", "report", "first", "-o", file).returncode == 0
        assert sign in file.read_text()

    listed = json.loads(user.types("accelprof", "runs", "--json").stdout)
    (row,) = [row for row in listed["runs"] if row["name"] == "first"]
    assert (row["state"], row["bottleneck"]) == ("finished", "input-bound")
    counted = user.types("accelprof", "sql", "first", "SELECT count(*) AS n FROM step")
    assert "60" in counted.stdout or "59" in counted.stdout


def test_the_jobs_status_is_ours(user: User, job: Write) -> None:
    failing = job("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)\n")
    done = user.types("accelprof", "run", "--quiet", "python", failing)
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
    assert user.types("accelprof", "run", "--quiet", "no-such-command").returncode == 127
    assert user.types("accelprof", "report", "no-such-run").returncode == 3


def test_a_live_run_is_read_and_the_end_changes_nothing(user: User, job: Write) -> None:
    script = job(LOOP + "main()\n")
    running = user.starts(
        "accelprof", "run", "--name", "live", *UNCAPTURED, "python", script, STEPS="100000"
    )

    def steps() -> int:
        report = user.types("accelprof", "report", "live", "--json")
        return json.loads(report.stdout)["time"]["steps_total"] if report.returncode == 0 else 0

    seen = wait_for(lambda: steps() > 40 and steps())
    report = user.reads("live")
    assert report["run"]["state"] == "running"
    assert report["verdict"]["bottleneck"] == "input-bound"
    os.killpg(running.pid, signal.SIGINT)
    _, stderr = running.communicate(timeout=90)
    assert running.returncode == 130
    ended = user.reads("live")
    assert ended["run"]["state"] in ("killed", "failed")
    assert ended["time"]["steps_total"] >= seen
    assert "INPUT-BOUND" in stderr


def test_kill_9_of_launcher_and_agent_leaves_a_run_and_the_job(
    user: User, job: Write, tmp_path: Path
) -> None:
    mark = tmp_path / "trained"
    script = job(LOOP + f"main()\nopen({str(mark)!r}, 'w').close()\n")
    running = user.starts(
        "accelprof", "run", "--name", "shot", *UNCAPTURED, "python", script, STEPS="600"
    )

    def flushed() -> bool:
        done = user.types("accelprof", "sql", "shot", "--json", "SELECT count(*) FROM step")
        return done.returncode == 0 and json.loads(done.stdout)["rows"][0][0] > 0

    wait_for(flushed)
    os.kill(running.pid, signal.SIGKILL)
    for pid in agents():
        os.kill(pid, signal.SIGKILL)
    wait_for(mark.exists)
    running.communicate(timeout=30)
    report = user.reads("shot")
    assert report["time"]["steps_total"] > 0
    assert report["run"]["state"] == "lost"


def agents() -> list[int]:
    """Agents of run folders that this session's user made."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"accelprof.profiler.agent" in words and any(b"-shot-" in word for word in words):
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_loader_workers(method: str, user: User, job: Write) -> None:
    options = f"num_workers=1, multiprocessing_context={method!r}"
    script = job(LOOP + f"if __name__ == '__main__': main({options})\n")
    ran = user.runs(f"workers-{method}", *UNCAPTURED, "python", script)
    assert ran.status == 0, ran.stderr
    assert ran.verdict["bottleneck"] == "input-bound", f"{ran}"
    assert ran.verdict["cause"] in ("storage", "too-few-workers", "remote-data"), f"{ran}"
    sql = "SELECT DISTINCT worker FROM worker_batch"
    assert json.loads(user.types("accelprof", "sql", ran.name, "--json", sql).stdout)["rows"] == [
        [0]
    ]


def test_torchrun_with_two_ranks(user: User, job: Write) -> None:
    script = job(
        LOOP.replace("model = ", "torch.distributed.init_process_group('gloo')\nmodel = ").replace(
            "nn.Linear(64, 8)", "nn.parallel.DistributedDataParallel(nn.Linear(64, 8))"
        )
        + "main()\ntorch.distributed.destroy_process_group()\n"
    )
    torchrun = ("torchrun", "--standalone", "--nproc-per-node", "2", script)
    ran = user.runs("ranks", *UNCAPTURED, *torchrun, OMP_NUM_THREADS="1")
    assert ran.status == 0, ran.stderr
    assert ran.report["time"]["ranks"] == 2
    assert [rank["rank"] for rank in ran.report["ranks"]] == [0, 1]
    assert ran.verdict["bottleneck"] == "input-bound", f"{ran}"


def test_hooks_that_cannot_reach_say_why(user: User, job: Write) -> None:
    ran = user.runs("isolated", "python", "-I", job("print('alone')\n"))
    assert (ran.status, ran.stdout) == (0, "alone\n")
    assert ran.report["quality"]["hooks"] == "none"
    assert ran.verdict["bottleneck"] == "inconclusive"


def test_a_run_file_alone_is_enough(user: User, job: Write, tmp_path: Path) -> None:
    """As from a ticket's attachment, on another machine with nothing else."""
    script = job(LOOP + "main()\n")
    user.types("accelprof", "run", "--quiet", "--name", "ticket", *UNCAPTURED, "python", script)
    (found,) = user.home.glob("runs/*-ticket-*/run.duckdb")
    attached = tmp_path / "attached.duckdb"
    attached.write_bytes(found.read_bytes())
    elsewhere = User(tmp_path / "other-home")
    assert elsewhere.reads(str(attached))["verdict"] == user.reads("ticket")["verdict"]


def test_demo_job_of_the_makefile_exists() -> None:
    recipe = subprocess.run(
        ["make", "--dry-run", "demo", "PYTHON=python3"], cwd=ROOT, capture_output=True, text=True,
        check=True,
    ).stdout  # fmt: skip
    assert "accelprof run --name demo" in recipe
