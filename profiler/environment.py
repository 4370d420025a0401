"""What the run's environment was: host, user, git, versions, and the command without its secrets.

`mask_command` is used by the launcher before the job starts, so imports stay light.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MASK = "***"
GIT_LIMIT_S = 2.0
NAME_MAX = 200  # characters of an option's name that are looked at, its last
# Variables worth keeping: they change how a job runs. Everything else stays unrecorded.
_KEPT = re.compile(
    r"CUDA_|NVIDIA_|NCCL_|GLOO_|TORCH|PYTORCH_|OMP_|MKL_|OPENBLAS_|KMP_|GOMP_|XLA_|JAX_|TPU_|TF_"
    r"|HF_|ROCR?_|HIP_|HSA_|SLURM_|PBS_|LSB_|OMPI_|PMI_|RANK$|LOCAL_RANK$|WORLD_SIZE$|MASTER_"
    r"|PYTHON|LD_PRELOAD$|LD_LIBRARY_PATH$|CONDA_DEFAULT_ENV$|VIRTUAL_ENV$"
)
_SECRET_WORDS = (
    r"token|secret|passw(?:or)?d|passwd|passphrase|pwd|credentials?|auth(?:orization)?"
    r"|api[-_]?key|access[-_]?key|private[-_]?key|secret[-_]?key|apikey|bearer|session[-_]?key"
)
# A word of an option or variable, not a part of one: `--token`, `HF_TOKEN`, not `--tokenizer`.
_SECRET_NAME = re.compile(rf"(?:^|[-_.])(?:{_SECRET_WORDS})s?(?:$|[-_.])|[-_]key$", re.IGNORECASE)
_CAMEL = re.compile(r"[a-z](?:Key|Token|Secret|Password)$")  # AccountKey of a connection string
# Options that look like secrets and are none: `--max-tokens 128`, `--num_tokens`, `--pad-token-id`.
_HARMLESS = re.compile(
    r"(?:max|min|num|n|new|per|pad|eos|bos|unk|mask|sep|cls|stop|special|total)[-_].*token"
    r"|token[-_](?:id|type|len|length|count)|tokens(?:[-_]per|$)|_tokens?_",
    re.IGNORECASE,
)
# A name is looked for where a word begins and nowhere within: a word of 64 KB costs a few ms so.
_URL_PASSWORD = re.compile(r"(?P<head>(?<![A-Za-z0-9+.-])[A-Za-z0-9+.-]+://[^/\s:@]*):[^/\s@]+@")
_URL_TOKEN = re.compile(r"(?P<head>\bhttps?://)[^/\s:@]+@")  # of a git remote; ssh has names there
_WEBHOOK = re.compile(
    r"(?P<head>hooks\.slack\.com/services/|discord(?:app)?\.com/api/webhooks/)[^\s'\"]+"
)
_URL_QUERY = re.compile(
    rf"(?P<head>[?&](?:[\w.-]*[-_.])?(?:{_SECRET_WORDS}|key|sig|signature)=)[^&\s#]+", re.IGNORECASE
)
_HEADER = re.compile(
    r"(?P<head>(?:authorization|x-api-key|api-key|cookie)\s*:\s*)(?:(?:bearer|basic|token)\s+)?\S+",
    re.IGNORECASE,
)
# What tokens of well-known services look like, wherever they stand.
_TOKEN_SHAPES = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|sk-[\w-]{16,}"
    r"|xox[abpr]-[\w-]{10,}|AKIA[A-Z0-9]{16}|glpat-[\w-]{16,}|eyJ[\w-]{10,500}\.[\w-]{10,}\.[\w-]*)"
)
# A field of JSON, YAML or a header: `"api_key": "x"`, `PRIVATE-TOKEN: x`
_FIELD = re.compile(r"(?P<head>(?<![\w.-])(?P<name>[\w.-]+)[\"']?\s*:\s*[\"']?)[^\"',}\s]+")
_PAIR_OPTIONS = ("-u", "--user", "--proxy-user")  # NAME:PASSWORD follows
# Hydra's overrides may begin with a plus or two.
_ASSIGNMENT = re.compile(r"(?P<name>--?[\w.-]+)=(?s:.*)|\+{0,2}(?P<variable>[A-Za-z_][\w.]*)=\S*")
_SHELL_ASSIGNMENT = re.compile(r"(?P<name>\b[A-Za-z_]\w*)=(?P<value>'[^']*'|\"[^\"]*\"|[^\s;'\"]+)")


def _is_secret(name: str) -> bool:
    name = name.lstrip("-")[-NAME_MAX:]
    return bool(_SECRET_NAME.search(name) or _CAMEL.search(name)) and not _HARMLESS.search(name)


def mask_text(text: str) -> str:
    """`text` with passwords in URLs, headers and tokens of well-known shapes masked."""
    text = _URL_PASSWORD.sub(rf"\g<head>:{MASK}@", text)
    text = _URL_TOKEN.sub(rf"\g<head>{MASK}@", text)
    for pattern in (_WEBHOOK, _URL_QUERY, _HEADER):
        text = pattern.sub(rf"\g<head>{MASK}", text)
    text = _FIELD.sub(lambda m: f"{m['head']}{MASK}" if _is_secret(m["name"]) else m[0], text)
    text = _SHELL_ASSIGNMENT.sub(
        lambda m: f"{m['name']}={MASK}" if _is_secret(m["name"]) else m[0], text
    )
    return _TOKEN_SHAPES.sub(MASK, text)


def mask_command(words: Sequence[str]) -> list[str]:
    """A command line with the values of likely secrets masked: `--token X`, `--api-key=X`, URLs."""
    masked: list[str] = []
    hide_next = False
    for before, word in zip(("", *words), words, strict=False):
        assignment = _ASSIGNMENT.fullmatch(word)
        name = (assignment["name"] or assignment["variable"]) if assignment else ""
        if hide_next and not word.startswith("--"):
            masked.append(MASK)
            hide_next = False
        elif _is_secret(name):
            masked.append(f"{word[: word.index('=')]}={MASK}")
            hide_next = False
        elif before in _PAIR_OPTIONS and ":" in word:
            masked.append(f"{word.partition(':')[0]}:{MASK}")
            hide_next = False
        else:
            hide_next = word.startswith("-") and "=" not in word and _is_secret(word)
            masked.append(mask_text(word))
    return masked


def mask_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that tell how a job runs, secrets masked."""
    return {
        key: MASK if _is_secret(key) else mask_text(value)
        for key, value in sorted(environ.items())
        if _KEPT.match(key)
    }


def describe(cwd: str, environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Columns of table `run`: host, user, git_commit, git_dirty, environment. Takes up to 2 s."""
    import platform
    import socket

    commit, dirty = git_state(cwd, environ)
    return {
        "host": socket.gethostname(),
        "user": _user(environ),
        "git_commit": commit,
        "git_dirty": dirty,
        "environment": {
            # Of the job; filled in from what the hooks tell, unknown without them.
            "python": None,
            "torch": None,
            "cuda": None,
            "driver": None,
            "os": f"{platform.system()} {platform.release()}",
            "machine": platform.machine(),
            "variables": mask_environment(environ),
        },
    }


def _user(environ: Mapping[str, str]) -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user without an entry
        return environ.get("USER") or str(os.getuid())


def git_state(
    cwd: str, environ: Mapping[str, str] = os.environ, *, limit_s: float = GIT_LIMIT_S
) -> tuple[str | None, bool | None]:
    """The commit checked out in `cwd` and whether tracked files differ from it; None: unknown."""
    if not cwd or not any((folder / ".git").exists() for folder in (Path(cwd), *Path(cwd).parents)):
        return None, None
    commit = _git(["rev-parse", "HEAD"], cwd, environ, limit_s)
    if not commit:
        return None, None
    changes = _git(["status", "--porcelain", "--untracked-files=no"], cwd, environ, limit_s)
    return commit.strip(), None if changes is None else bool(changes.strip())


def _git(words: list[str], cwd: str, environ: Mapping[str, str], limit_s: float) -> str | None:
    import subprocess

    # Reads only: takes no lock, starts no watcher, asks nobody, fetches no missing object.
    quiet = {
        "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1",
    }  # fmt: skip
    command = ["git", "-c", "core.fsmonitor=false", *words]
    try:
        done = subprocess.run(
            command, cwd=cwd, env={**environ, **quiet}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=limit_s, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
