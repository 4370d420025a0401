"""Jobs of the frameworks that people train with: their steps and phases are those of a plain loop.

Each job prints how many steps it made. `pip install -e '.[frameworks]'` brings what they need; a
job whose package is missing, or that fails here by itself, too, is left out.
"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from .conftest import Ran, User

pytestmark = pytest.mark.slow
JOBS = Path(__file__).parent / "jobs"
PLAIN = ("--capture", "off", "--stacks", "off", "--quiet")  # phases alone: no ceilings needed
TRAINING = frozenset({"forward", "backward", "optimizer"})
FED = TRAINING | {"data_wait"}


@dataclass(frozen=True)
class Job:
    """What a job needs, and the phases that must be seen in it."""

    package: str
    phases: frozenset[str]
    shares: tuple[str, ...] = ()  # that must not be 0
    samples: bool = True


LOOPS = {
    "hf_trainer": Job("transformers", FED | {"checkpoint"}, ("evaluation", "checkpoint")),
    "accelerate_loop": Job("accelerate", FED, ("evaluation",)),
    "lightning_fit": Job("lightning", FED | {"checkpoint"}, ("evaluation", "checkpoint")),
    "stateful_loader": Job("torchdata", FED, ("input",)),
    "web_tar": Job("webdataset", FED, ("input",)),
    "hf_datasets": Job("datasets", FED, ("input",)),
    "timm_train": Job("timm", FED, ("input",)),
    "nano_gpt": Job("torch", TRAINING, ("evaluation",), samples=False),
    "decode_loop": Job("torch", frozenset({"forward"}), samples=False),
    "keras_fit": Job("keras", FED, ("evaluation",)),
    "flax_train": Job("jax", frozenset({"forward"}), samples=False),
    "ray_train": Job("ray", FED | {"collective"}, ("communication",), samples=False),
}


def steps_of(ran: Ran) -> int:
    """The number that the job printed, and nothing of ours beside it."""
    assert ran.status == 0, ran.stderr
    (told,) = re.findall(r"^steps (\d+)$", ran.stdout, re.MULTILINE)
    return int(told)


@pytest.mark.parametrize("name", LOOPS)
def test_steps_and_phases(name: str, user: User) -> None:
    job = LOOPS[name]
    if importlib.util.find_spec(job.package) is None:
        pytest.skip(f"{job.package} is not installed")
    ran = user.runs(name, *PLAIN, "python", JOBS / f"{name}.py", HF_HUB_OFFLINE="1")
    if ran.status:  # a torchvision of another build than torch, for one, breaks three of them
        plain = user.types("python", JOBS / f"{name}.py", HF_HUB_OFFLINE="1")
        if plain.returncode:
            pytest.skip(f"without accelprof: {plain.stderr.splitlines()[-1]}")
    time = ran.report["time"]
    assert time["steps_total"] == steps_of(ran), ran
    assert not job.phases & set(time["not_observed"]), ran
    assert all(ran.shares[share] > 0 for share in job.shares), ran
    assert (time["samples_per_s"] is not None) == job.samples, ran
    assert ran.report["quality"]["hooks"] == "full" and ran.report["quality"]["events_lost"] == 0


@pytest.mark.parametrize("kind", ["ddp", "fsdp", "fsdp2"])
def test_ranks_join_one_run_and_the_straggler_is_named(kind: str, user: User) -> None:
    launcher = ("torchrun", "--nproc-per-node", "2")
    ran = user.runs(kind, *PLAIN, *launcher, JOBS / "sharded.py", kind, "one", OMP_NUM_THREADS="1")
    assert ran.report["time"]["steps_total"] == steps_of(ran)
    rows = ran.report["ranks"]
    assert [row["rank"] for row in rows] == [0, 1]
    assert rows[0]["wait_ms"] > rows[1]["wait_ms"] + 15, rows  # rank 1 sleeps 30 ms a step
    assert "collective" not in ran.report["time"]["not_observed"]
    (straggler,) = [f for f in ran.report["findings"] if f["id"] == "straggler"]
    assert "Rank 1" in straggler["title"], straggler


def test_ranks_that_take_turns_are_told_so(user: User) -> None:
    launcher = ("torchrun", "--nproc-per-node", "2")
    ran = user.runs(
        "turns", *PLAIN, *launcher, JOBS / "sharded.py", "ddp", "turns", OMP_NUM_THREADS="1"
    )
    (straggler,) = [f for f in ran.report["findings"] if f["id"] == "straggler"]
    assert "take turns" in straggler["title"], ran.report["ranks"]
