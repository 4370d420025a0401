"""What a sampled stack of the training thread says."""

from __future__ import annotations

import pytest
from made_runs import T0, Run

from accelprof.profiler.diagnosis import diagnose, stacks

SITE = "/venv/lib/python3.11/site-packages"
TOP = "<module> (/job/train.py:40)"

CASES = [
    ("loader", f"{TOP};__next__ ({SITE}/torch/utils/data/dataloader.py:700);decode (/job/d.py:5)"),
    ("input", f"{TOP};batches (/job/train.py:12)"),
    ("input", f"{TOP};helper (/job/train.py:12);open ({SITE}/PIL/Image.py:3000)"),
    ("input", f"{TOP};tokenize_line (/job/text.py:3)"),
    ("model", f"{TOP};_call_impl ({SITE}/torch/nn/modules/module.py:1500);forward (/job/net.py:9)"),
    ("model", f"{TOP};forward (/job/net.py:9);sample_noise (/job/net.py:22)"),
    ("model", f"{TOP};backward ({SITE}/torch/autograd/graph.py:800)"),
    ("logging", f"{TOP};log ({SITE}/wandb/sdk/wandb_run.py:1700)"),
    ("logging", f"{TOP};info (/usr/lib/python3.11/logging/__init__.py:1500)"),
    ("checkpoint", f"{TOP};save ({SITE}/torch/serialization.py:900)"),
    (
        "checkpoint",
        f"{TOP};save_checkpoint (/job/train.py:7);write (/usr/lib/python3.11/gzip.py:3)",
    ),
    ("evaluation", f"{TOP};validate (/job/train.py:20);forward (/job/net.py:9)"),
    # From Python 3.11 on a name comes with its class
    ("model", f"{TOP};Net.forward (/job/net.py:9);Net.sample_noise (/job/net.py:22)"),
    ("evaluation", f"{TOP};Trainer.validate (/job/train.py:20);Net.forward (/job/net.py:9)"),
    ("logging", f"{TOP};Trainer.log_step (/job/train.py:20)"),
    ("checkpoint", f"{TOP};Trainer.save_checkpoint (/job/train.py:20)"),
    ("input", f"{TOP};main.<locals>.load.<locals>.<listcomp> (/job/train.py:12)"),
    ("input", f"{TOP};Pairs.__next__ (/job/data.py:12)"),
    ("input", f"{TOP};ShardReader.advance (/job/data.py:12)"),
    # The verb says what a function does, not the noun that it works on
    *(
        ("user", f"{TOP};{name} (/job/train.py:12)")
        for name in (
            "train_batch",
            "Trainer.process_batch",
            "ImageClassifier.step",
            "update_generator",
            "already_seen",
            "spread",
            "make_sparse",
            "sample_token",
            "batch_norm",
            "upload",
        )
    ),
    *(
        ("input", f"{TOP};{name} (/job/train.py:12)")
        for name in (
            "get_train_batch",
            "next_batch",
            "makeBatch",
            "ReplayBuffer.sample",
            "read_png",
            "load_image",
            "parse_line",
            "sample_batch",
        )
    ),
    # What writes makes no batch
    (
        "logging",
        f"{TOP};log (/job/t.py:3);dump (/usr/lib/python3.11/json/__init__.py:179);"
        "_iterencode (/usr/lib/python3.11/json/encoder.py:432)",
    ),
    ("user", f"{TOP};dump (/usr/lib/python3.11/json/__init__.py:179)"),
    ("input", f"{TOP};load (/usr/lib/python3.11/json/__init__.py:293)"),
    ("user", f"{TOP};score (/job/train.py:33)"),
    ("user", TOP),
]


@pytest.mark.parametrize(("expected", "frames"), CASES, ids=[f"{c}-{i}" for i, (c, _) in
                                                             enumerate(CASES)])  # fmt: skip
def test_category(expected: str, frames: str) -> None:
    assert stacks.classify(frames)[0] == expected


def test_the_place_is_the_users_line() -> None:
    frames = f"{TOP};load (/job/data.py:12);open ({SITE}/PIL/Image.py:3000)"
    assert stacks.classify(frames)[1] == "/job/data.py:12 load"


@pytest.mark.parametrize("frames", ["", ";;", "no brackets", "a (b;c)", "f ()", "(:)"])
def test_odd_frames_do_no_harm(frames: str) -> None:
    category, _ = stacks.classify(frames)
    assert category in ("user", "input")


def test_summary_adds_up() -> None:
    found = stacks.summarise([(TOP, 3), (f"{TOP};batches (/job/train.py:12)", 6), (TOP, 1)])
    assert found.samples == 10
    assert found.shares == {"user": 0.4, "input": 0.6}
    assert found.hot["input"] == [("/job/train.py:12 batches", 1.0)]
    assert stacks.summarise([]).samples == 0


def test_the_line_of_backward_is_the_step_and_not_python_to_be_moved() -> None:
    found = stacks.summarise([
        (f"{TOP};backward ({SITE}/torch/_tensor.py:600);b ({SITE}/torch/autograd/graph.py:8)", 6),
        (f"{TOP};update (/job/train.py:8);__rmul__ ({SITE}/torch/nn/modules/module.py:1)", 4),
    ])  # fmt: skip
    assert found.shares == {"model": 1.0}
    assert stacks.classify("f (<frozen importlib._bootstrap>:7)") == ("user", "")
    assert found.hot["step"] == [("/job/train.py:40 <module>", 0.6)]
    assert found.hot["model"] == [("/job/train.py:8 update", 0.4)]


def test_hotspots_of_input_are_those_of_the_workers() -> None:
    loop = "torch/utils/data/_utils/worker.py:1"
    run = Run().steps(60, 50.0, data_wait=40.0, forward=3.0, backward=4.0)
    run.process().process(pid=11, role="worker")
    run.stacks({f"<module> (/job/train.py:9);__next__ (/x/{loop})": 50})
    run.stacks({
        f"<module> (/job/train.py:9);_worker_loop (/x/{loop});read (/job/data.py:5)": 30,
        "<module> (/job/train.py:9);Queue.get (/usr/lib/multiprocessing/queues.py:103)": 20,
    }, pid=11)  # fmt: skip
    spots = diagnose(run, now_ns=T0).hotspots.input
    assert [(s.where, s.share) for s in spots] == [("/job/data.py:5 read", 1.0)]
