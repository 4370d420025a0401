"""What is recorded of the environment: no secrets, git within its time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelprof.profiler.environment import git_state, mask_command, mask_environment

from .conftest import Bench


@pytest.mark.parametrize(
    ("words", "masked"),
    [
        ("--token abc", "--token ***"), ("--token=abc", "--token=***"),
        ("--hf_token abc", "--hf_token ***"), ("--api-key abc", "--api-key ***"),
        ("WANDB_API_KEY=abc python", "WANDB_API_KEY=*** python"),
        ("--aws-secret-access-key abc", "--aws-secret-access-key ***"),
        ("--password abc", "--password ***"), ("http://u:abc@h/x", "http://u:***@h/x"),
        ("s3://h/x?X-Signature=abc", "s3://h/x?X-Signature=***"),
        ("hf_abcabcabcabcabcabcabc", "***"), ("ghp_" + "a1" * 18, "***"),
        # no secrets
        ("--tokenizer bert", "--tokenizer bert"), ("--max-tokens 128", "--max-tokens 128"),
        ("--pad_token_id 0", "--pad_token_id 0"), ("--lr 3 --key-dim 64", "--lr 3 --key-dim 64"),
        ("--num-tokens=5 http://h:80/x", "--num-tokens=5 http://h:80/x"),
        ("--token --verbose", "--token --verbose"),
    ],
)  # fmt: skip
def test_mask_command(words: str, masked: str) -> None:
    assert " ".join(mask_command(words.split())) == masked


def test_secrets_within_a_shell_command() -> None:
    text = "export HF_TOKEN='abc'; curl -H 'Authorization: Bearer abc' x; python t.py --lr 3"
    (masked,) = mask_command([text])
    assert "abc" not in masked and "python t.py --lr 3" in masked


@pytest.mark.parametrize("part", ["a", "a-", "token-", "aKey", "-eyJaaaaaaaaaa", "max-", "a.b"])
def test_a_long_word_costs_little(part: str) -> None:
    word = part * (1_000_000 // len(part))
    began = time.process_time()
    assert mask_command([word]) in ([word], ["***"])
    assert time.process_time() - began < 40  # hours when each letter is tried as a beginning


@given(st.lists(st.text()))
def test_any_command_keeps_its_length(words: list[str]) -> None:
    assert len(mask_command(words)) == len(words)


def test_mask_environment() -> None:
    environ = {
        "HF_TOKEN": "abc", "HF_HOME": "/x", "CUDA_VISIBLE_DEVICES": "1", "NCCL_DEBUG": "INFO",
        "MY_PASSWORD": "abc", "PATH": "/bin", "SLURM_JOB_ID": "7", "TORCH_URL": "http://u:abc@h",
    }  # fmt: skip
    assert mask_environment(environ) == {
        "HF_TOKEN": "***", "HF_HOME": "/x", "CUDA_VISIBLE_DEVICES": "1", "NCCL_DEBUG": "INFO",
        "SLURM_JOB_ID": "7", "TORCH_URL": "http://u:***@h",
    }  # fmt: skip


def test_git(tmp_path: Path) -> None:
    assert git_state(str(tmp_path)) == (None, None)

    def git(*words: str) -> None:
        who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    assert git_state(str(tmp_path)) == (None, None)  # no commit yet
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-m", "x")
    below = tmp_path / "below"
    below.mkdir()
    commit, dirty = git_state(str(below))
    assert commit and len(commit) == 40 and dirty is False
    (tmp_path / "file").write_text("2")
    assert git_state(str(tmp_path)) == (commit, True)
    assert git_state("") == (None, None)


def test_a_git_that_hangs_is_left(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    begin = time.monotonic()
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert git_state(str(tmp_path), environ, limit_s=0.2) == (None, None)
    assert time.monotonic() - begin < 10


def test_no_secret_of_a_command_line_is_recorded_anywhere(bench: Bench) -> None:
    """Not by the launcher, not by the process tree, not by the hooks' own account of argv."""
    script = bench.script("import sys; sys.exit(len(sys.argv) != 3)")
    done = bench.run("run", "--quiet", sys.executable, script, "--api-key", "hunter2-hunter2")
    assert done.returncode == 0
    (hooks,) = bench.query("SELECT hooks FROM process WHERE role = 'main'")
    assert hooks == ("loaded",)
    tables = [name for (name,) in bench.query("SELECT table_name FROM duckdb_tables()")]
    for table in tables:
        assert "hunter2" not in str(bench.query(f'FROM "{table}"')), table
