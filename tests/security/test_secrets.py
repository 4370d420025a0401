"""Secrets in command lines, environments and remotes are masked wherever they are recorded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from accelprof.profiler.environment import MASK, mask_command, mask_environment, mask_text

SECRET = "s3cr3tVALUE9"
LINES = (
    ["train.py", "--token", SECRET], ["train.py", f"--api-key={SECRET}"],
    ["train.py", "--hf_token", SECRET], ["train.py", "--password", SECRET],
    ["train.py", "--wandb-key", SECRET], ["train.py", f"--wandb_api_key={SECRET}"],
    ["env", f"HF_TOKEN={SECRET}", "python"], ["env", f"AWS_SECRET_ACCESS_KEY={SECRET}"],
    ["bash", "-c", f"WANDB_API_KEY={SECRET} python t.py"],
    ["bash", "-c", f"export TOKEN='{SECRET}'; python t.py"],
    ["train.py", f"trainer.api_key={SECRET}"], ["train.py", f"++secrets.key={SECRET}"],
    ["train.py", "--cfg", f'{{"api_key": "{SECRET}", "lr": 3}}'],
    ["curl", "-H", f"Authorization: Bearer {SECRET}"], ["curl", "-H", f"X-Api-Key: {SECRET}"],
    ["curl", "--header", f"PRIVATE-TOKEN: {SECRET}"], ["curl", "-u", f"me:{SECRET}"],
    ["curl", "--user", f"me:{SECRET}", "https://host"],
    ["train.py", f"--store=redis://:{SECRET}@host:1/0"], ["train.py", f"s3://key:{SECRET}@bucket"],
    ["train.py", f"postgresql://me:{SECRET}@db/x"], ["train.py", f"https://h/x?token={SECRET}&b=1"],
    ["train.py", f"https://h/x?X-Amz-Signature={SECRET}"],
    ["train.py", f"https://a.blob.core.windows.net/c?sv=1&sig={SECRET}"],
    ["train.py", "--connection", f"AccountName=a;AccountKey={SECRET};EndpointSuffix=x"],
    ["notify.py", f"https://hooks.slack.com/services/T0/B0/{SECRET}"],
    ["git", "clone", f"https://{SECRET}@github.com/a/b.git"],
    ["git", "push", f"https://me:{SECRET}@git.example.org/a/b.git"],
)  # fmt: skip
SHAPES = ("hf_" + "a1" * 15, "ghp_" + "a1" * 18, "github_pat_" + "a1" * 20, "sk-" + "a1" * 20,
          "xoxb-" + "1234567890-ab", "AKIA" + "A1" * 8, "glpat-" + "a1" * 10,
          "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.abc-def")  # fmt: skip
HARMLESS = (
    ["--max-tokens", "128"], ["--tokenizer", "gpt2"], ["--pad_token_id=3"], ["--key-dim", "64"],
    ["--author", "me"], ["--user", "me"], ["git@github.com:a/b.git"], ["ssh://git@host/x"],
    ["https://host:8080/x"], ["lr=3e-4"], ["model.hidden: 64"],
)  # fmt: skip


@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_in_a_command_line(words: list[str]) -> None:
    masked = mask_command(words)
    assert len(masked) == len(words) and masked[0] == words[0]
    assert SECRET not in " ".join(masked) and MASK in " ".join(masked)


@pytest.mark.parametrize("token", SHAPES)
def test_by_its_shape(token: str) -> None:
    assert mask_command(["train.py", token, f"see {token}."]) == ["train.py", MASK, f"see {MASK}."]
    assert token not in mask_text(f"fatal: https://{token}@github.com/a/b.git not found")


@pytest.mark.parametrize("words", HARMLESS, ids=" ".join)
def test_what_is_none(words: list[str]) -> None:
    assert mask_command(words) == words


def test_in_the_environment() -> None:
    given = {"HF_TOKEN": SECRET, "HF_ENDPOINT": f"https://me:{SECRET}@hub", "WANDB_API_KEY": SECRET,
             "AWS_SECRET_ACCESS_KEY": SECRET, "NCCL_DEBUG": "INFO", "PATH": "/bin"}  # fmt: skip
    assert mask_environment(given) == {
        "HF_TOKEN": MASK, "HF_ENDPOINT": f"https://me:{MASK}@hub", "NCCL_DEBUG": "INFO"
    }  # fmt: skip


def test_nothing_of_them_is_in_the_run(tmp_path: Path) -> None:
    """The run's file, its log, the report and the card, of a job in a clone with a token."""
    home, clone = tmp_path / "home", tmp_path / "clone"
    clone.mkdir()
    for words in (
        ["init", "-q"], ["remote", "add", "origin", f"https://{SECRET}@github.com/a/b.git"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"],
    ):  # fmt: skip
        subprocess.run(["git", *words], cwd=clone, check=True)
    secrets = [word for line in LINES for word in line[1:]]
    done = subprocess.run(
        [sys.executable, "-m", "accelprof", "run", sys.executable, "-c", "0", *secrets],
        cwd=clone, capture_output=True, text=True, check=False,
        env=os.environ | {"ACCELPROF_HOME": str(home), "HF_TOKEN": SECRET},
    )  # fmt: skip
    assert done.returncode == 0 and SECRET not in done.stderr
    files = [path for path in home.rglob("*") if path.is_file()]
    assert any(path.name == "run.duckdb" for path in files)
    for path in files:
        assert SECRET.encode() not in path.read_bytes(), path
        assert path.stat().st_mode & 0o077 == 0, path
    report = subprocess.run(
        [sys.executable, "-m", "accelprof", "report", "--json"], capture_output=True, text=True,
        check=True, env=os.environ | {"ACCELPROF_HOME": str(home)},
    )  # fmt: skip
    assert SECRET not in report.stdout and MASK in report.stdout
